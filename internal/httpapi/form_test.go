package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// FuzzForm: a body that is no form has none; what a form hands out are parts of
// one buffer that do not overlap, in their order, with names that differ.
func FuzzForm(f *testing.F) {
	for _, seed := range []string{
		"--b\r\nContent-Disposition: form-data; name=\"call\"\r\n\r\n{}\r\n--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"../x\"\r\n\r\nbytes\r\n--b--\r\n",
		"--b\r\nContent-Disposition: form-data; name=\"call\"\r\n\r\n{\"inputs\":[{\"name\":\"a\",\"data\":\"\",\"executable\":true}]}\r\n--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=\"call\"\r\n\r\n{}\r\n--b\r\nContent-Disposition: form-data; name=\"call\"\r\n\r\n{}\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=call\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=7B}\r\n--b--",
		"--b\r\nContent-Disposition: attachment; name=call\r\n\r\n{}\r\n--b--", "--b\r\n\r\n{}\r\n--b--", "--b--", "", "\r\n--b\r\n",
		"preamble\r\n--b\r\nContent-Disposition: form-data; name=\"call\"\r\n\r\n--b\r\n--b--\r\nepilogue",
	} {
		f.Add([]byte(seed), int64(len(seed)))
	}
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"call\"\r\n\r\n{\"argv\":[\"x\"]}\r\n--b--"), int64(3))
	f.Fuzz(func(t *testing.T, body []byte, size int64) {
		size = min(max(size, 0), 1<<16)
		form, err := readForm(bytes.NewReader(body), "b", size)
		var large *http.MaxBytesError
		if err != nil {
			if form != nil || !errors.Is(err, errForm) && !errors.As(err, &large) {
				t.Fatalf("%v %v", form, err)
			}
			return
		}
		parts, names := [][]byte{form.call}, map[string]bool{callPart: true}
		for _, file := range form.files {
			if names[file.Name] || file.Name == "" {
				t.Fatalf("%q comes twice", file.Name)
			}
			names[file.Name] = true
			parts = append(parts, file.Data)
		}
		total := 0
		for i, part := range parts { // whoever shares a byte with another loses it
			total += len(part)
			for k := range part[:cap(part)] {
				part[k] = byte(i)
			}
		}
		for i, part := range parts {
			if len(bytes.Trim(part, string([]byte{byte(i)}))) > 0 && i < 128 {
				t.Fatal("parts overlap")
			}
		}
		if total != len(form.buf) || total > len(body) || cap(form.buf) != int(size) {
			t.Fatalf("%d bytes of %d, in a buffer of %d", total, len(body), cap(form.buf))
		}
	})
}

// FuzzFormOfFiles: what was written as a form is read back, whatever the
// boundary, and has one digest; another file has another.
func FuzzFormOfFiles(f *testing.F) {
	f.Add("a.txt", []byte("one"), "dir/b c.txt", []byte("--b\r\n"))
	f.Add("x", []byte{}, "\u00fc\u4e16", []byte{0, 255, 13, 10})
	f.Add("call", []byte("{}"), "call", []byte("x"))
	f.Fuzz(func(t *testing.T, name1 string, data1 []byte, name2 string, data2 []byte) {
		for _, name := range []string{name1, name2} {
			if envelope.CheckName(name) != nil || strings.Contains(name, `"`) || name == callPart {
				return // what a form cannot name is said in JSON
			}
		}
		if name1 == name2 {
			return
		}
		files := []envelope.File{{Name: name1, Data: data1}, {Name: name2, Data: data2}}
		first, err := readForm(written(t, files))
		if err != nil {
			t.Fatal(err)
		}
		if len(first.files) != 2 || string(first.call) != `{"argv":["x"]}` {
			t.Fatalf("%+v", first.files)
		}
		for i, file := range first.files {
			if file.Name != files[i].Name || !bytes.Equal(file.Data, files[i].Data) {
				t.Fatalf("%q is %q, was %q", file.Name, file.Data, files[i].Data)
			}
		}
		again, err := readForm(written(t, files))
		if err != nil || again.digest != first.digest {
			t.Fatalf("with another boundary it is another: %v", err)
		}
		files[0].Data = append(bytes.Clone(files[0].Data), 'x')
		other, err := readForm(written(t, files))
		if err != nil || other.digest == first.digest {
			t.Fatalf("with other bytes it is the same: %v", err)
		}
		call, err := first.decode()
		if err != nil || len(call.Inputs) != 2 || call.Validate() != nil && !strings.Contains(call.Validate().Error(), "lies below") {
			t.Fatalf("%+v %v %v", call.Inputs, err, call.Validate())
		}
	})
}

// written writes a form with a boundary of its own.
func written(t *testing.T, files []envelope.File) (*bytes.Reader, string, int64) {
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	if err := writeTo(w, callPart, []byte(`{"argv":["x"]}`)); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := writeTo(w, file.Name, file.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(buf.Bytes()), w.Boundary(), int64(buf.Len())
}

func writeTo(w *multipart.Writer, name string, data []byte) error {
	part, err := w.CreateFormField(name)
	if err == nil {
		_, err = part.Write(data)
	}
	return err
}

// TestFilesOfAForm: a part is an input; of one that the call names it has the
// bytes; two that have bytes for one name are refused.
func TestFilesOfAForm(t *testing.T) {
	f := &form{call: []byte(`{"argv":["./run"],"inputs":[{"name":"run","data":"","executable":true},{"name":"own","data":"eA=="}]}`),
		files: []envelope.File{{Name: "run", Data: []byte("#!")}, {Name: "more", Data: []byte("m")}}}
	call, err := f.decode()
	if err != nil || len(call.Inputs) != 3 || string(call.Inputs[0].Data) != "#!" || !call.Inputs[0].Executable || call.Inputs[2].Name != "more" {
		t.Errorf("%+v %v", call.Inputs, err)
	}
	for _, more := range []string{`{"name":"a","data":"eA=="}`, `{"name":"a","data":"","blob":"` + envelope.Digest(nil) + `"}`} {
		f := &form{call: []byte(`{"argv":["x"],"inputs":[` + more + `]}`), files: []envelope.File{{Name: "a", Data: []byte("b")}}}
		var p *Problem
		if call, err := f.decode(); !errors.As(err, &p) || p.Code != "request" || p.Field != "inputs[0]" || call.Inputs != nil {
			t.Errorf("%s: %+v %v", more, call.Inputs, err)
		}
	}
	f.call = []byte(`{"argv":["x"],"argv":["y"]}`)
	if _, err := f.decode(); err == nil {
		t.Error("a call in a form is not decoded strictly")
	}
}

// TestHeadsOfParts: of the head of a part the name is read, and it is one; what
// else is in it is little.
func TestHeadsOfParts(t *testing.T) {
	const named = "Content-Disposition: form-data; name=\"a\"\r\n"
	for _, c := range []struct {
		name, head string
		ok         bool
	}{
		{"as clients write it", "Content-Disposition: form-data; name=\"a\"; filename=\"../b\"\r\nContent-Type: text/plain\r\n", true},
		{"the longest name", "Content-Disposition: form-data; name=\"" + strings.Repeat("%2f", envelope.MaxName) + "\"\r\n", true},
		{"no name", "Content-Disposition: form-data\r\n", false},
		{"of something else", "Content-Disposition: attachment; name=\"a\"\r\n", false},
		{"two names", named + "Content-Disposition: form-data; name=\"b\"\r\n", false},
		{"many fields", named + manyFields(100), false},
		{"a long field", named + "X: " + strings.Repeat("y", 32<<10) + "\r\n", false},
		{"a long name of a field", named + strings.Repeat("x", 32<<10) + ": y\r\n", false},
		{"one field many times", named + strings.Repeat("X: 123456789\r\n", 4000), false},
	} {
		text := "--B\r\nContent-Disposition: form-data; name=\"call\"\r\n\r\n{}\r\n--B\r\n" + c.head + "\r\nbytes\r\n--B--\r\n"
		f, err := readForm(strings.NewReader(text), "B", int64(len(text)))
		if (err == nil) != c.ok || err != nil && !errors.Is(err, errForm) {
			t.Errorf("%s: %v %v", c.name, f, err)
		}
	}
}

func manyFields(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "X-%d: y\r\n", i)
	}
	return text.String()
}
