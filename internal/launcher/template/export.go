package template

// File is a file of our own in every cell.
type File struct{ Name, Text string }

// Link is a symbolic link of our own in every cell.
type Link struct{ Target, Name string }

// Roots are the names at the root that lead into /usr where this host is
// merged.
func Roots() []string { return roots() }

// Directories are the directories of our own in every cell.
func Directories() []string { return directories() }

// Files are the files of our own in every cell, and those that cover two of
// them where a cell has a network.
func Files() []File {
	var out []File
	for _, f := range ours() {
		out = append(out, File{f.name, f.text})
	}
	return out
}

// Links are the symbolic links of our own in every cell.
func Links() []Link {
	var out []Link
	for _, l := range links() {
		out = append(out, Link{l[0], l[1]})
	}
	return out
}
