// Package pull brings an image from a registry as one tar stream, flattened:
// what a container of it would see at its root.
//
//	reference -> manifest, by tag or digest -> of an index the one of the platform
//	          -> configuration -> layers, the topmost first, as they come -> stream
//
// It runs in a cell, with a way to the registry alone and little room: layers
// are never kept. The topmost layer comes first, and of the ones below only
// what is still to be seen. So each layer is read once, except where a hard
// link needs contents that a layer above has hidden: then it is read again.
//
// Everything is checked against its digest: the manifest where a digest was
// asked for, configuration and layers against the manifest, and what a layer
// unpacks to against the configuration. What fails is known only at the end of
// a layer; the stream has no end mark then, and the exit code is 1. Of the
// stream itself nothing is promised but that it is one: whoever unpacks it
// (package unpack) believes nothing.
//
// No credentials are sent. A tag is resolved to a digest, which is told.
//
// # What is hidden
//
// As the image specification has it: ".wh.NAME" hides NAME in the layers below,
// ".wh..wh..opq" all of a directory. A file in a layer above hides what is
// below at its name and, where that is a directory, all in it. A layer that
// puts something below a name that is a link in a layer under it, without
// making a directory of it first, is refused (fstree.KindForm): the unpacker
// follows no link, and neither is one followed here.
package pull
