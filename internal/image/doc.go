// Package image knows the roots of cells by name: what there is, what each is
// made of, how it came here, and what may go.
//
//	host        the slice of this host's own /usr; no record, no tree. Where a
//	            level cannot look into the host's files it is a snapshot of it
//	oci:REF     an image of a registry, pulled by digest and flattened once
//	build:NAME  a base and what was installed on top of it, in a cell
//
// An image is a record of ours and one or two trees. Trees are content-addressed
// and belong to the launcher, which alone can write them; records are JSON files
// of the front's, one a name, that name trees by digest. So a record can be
// lost or stale, and never be the cause that a cell sees another file than it
// says.
//
//	names/<sha256 of the name>.json   records; written beside, then renamed
//	logs/<id>.log                     what the making of an image printed
//	lock                              shared by who makes, exclusive to who collects
//
// A tree is made by the launcher's unpacker out of a stream. The stream comes
// out of a cell: pulling and building are calls like all others, with a row.
// Nothing of an image is executed or interpreted outside of cells.
package image
