package world

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// wheels is a simple index of Python packages.
type wheels struct {
	mu    sync.Mutex               // guards files
	files map[string][]archiveFile // by the name of the package
}

// An archiveFile is one file of a package.
type archiveFile struct {
	name string
	data []byte
	sum  [sha256.Size]byte
}

// add adds the file of a package, whose name begins its own.
func (w *wheels) add(file string, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, _, _ := strings.Cut(file, "-")
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	w.files[name] = append(w.files[name], archiveFile{file, data, sha256.Sum256(data)})
}

// ServeHTTP implements http.Handler.
func (w *wheels) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	files := slices.Clone(w.files[r.PathValue("package")])
	w.mu.Unlock()
	asked := r.PathValue("file")
	if asked == "" && len(files) > 0 {
		out.Header().Set("Content-Type", "text/html")
		io.WriteString(out, "<!DOCTYPE html>")
		for _, f := range files {
			fmt.Fprintf(out, "<a href=\"%s#sha256=%x\">%s</a>\n", f.name, f.sum, f.name)
		}
		return
	}
	for _, f := range files {
		if f.name == asked {
			out.Write(f.data)
			return
		}
	}
	http.NotFound(out, r)
}

// index is the index, with Package in it.
func index() (*wheels, http.Handler) {
	w := &wheels{files: map[string][]archiveFile{}}
	data, err := wheel()
	if err != nil {
		return w, missing(err)
	}
	w.add("callcell_tiny-1.0-py3-none-any.whl", data)
	m := http.NewServeMux()
	m.Handle("/simple/{package}/{$}", w)
	m.Handle("/simple/{package}/{file}", w)
	return w, m
}
