package httpapi

// Streams is how many requests wait for calls of others, of all keys.
func (a *API) Streams() (n int) {
	a.follows.mu.Lock()
	defer a.follows.mu.Unlock()
	for _, of := range a.follows.by {
		n += of
	}
	return n
}
