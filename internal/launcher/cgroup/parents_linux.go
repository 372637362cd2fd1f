package cgroup

// Parents returns the directory descriptor of each hierarchy's parent, under
// which every group has its directory: what another process needs to remove
// groups by name. They belong to the Tree.
func (t *Tree) Parents() []int {
	fds := make([]int, len(t.hierarchies))
	for i, h := range t.hierarchies {
		fds[i] = h.parent
	}
	return fds
}
