// Package ignore decides which files of a tree are left out, by the rules of
// .gitignore files, and which names nobody may write through a tree. It is
// pure: it opens nothing, and a rule is matched and never expanded.
//
// The rules are git's: the last one that matches decides, one of a directory
// below goes before one of a directory above, ! takes in again, a / at the end
// is for directories, a / anywhere else ties the rule to the directory that it
// stands in, * and ? match within a name and ** across names, and nothing below
// a directory that is left out can be taken in again. A test holds it to git
// itself.
//
// Matching takes no more than the product of the two lengths, whatever a rule
// looks like, there is a most of rules, and what many names take together is
// bounded by a Meter: a tree is a stranger's, and the time is ours.
package ignore
