package diff

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"fmt"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/render"
)

// maxLiteral bounds a file that is in a patch as bytes. A larger one is named in
// it, so that git apply refuses the patch and does not leave it out.
const maxLiteral = 8 << 20

// Patch is the diff as git apply takes it, for programs: modes, files that are
// empty, and files that are no text too. Names and lines in it are a program's.
func (f *File) Patch() string {
	from, to := patchName("a/", f.Name), patchName("b/", f.Name)
	text := "diff --git " + from + " " + to + "\n" + f.modes()
	switch {
	case f.Kind == envelope.ChangeMode:
		return text
	case f.Note != "":
		return text + f.literal(from, to)
	case f.Hunks == "":
		return text // empty, then and now
	}
	from, to = ended(from), ended(to)
	switch f.Kind {
	case envelope.ChangeAdded:
		from = "/dev/null"
	case envelope.ChangeRemoved:
		to = "/dev/null"
	}
	return text + "--- " + from + "\n+++ " + to + "\n" + f.Hunks
}

// modes are the lines about a file's mode. One that was there keeps its own,
// unless that is what was changed.
func (f *File) modes() string {
	mode, other := "100644", "100755"
	if f.Executable {
		mode, other = other, mode
	}
	switch f.Kind {
	case envelope.ChangeAdded:
		return "new file mode " + mode + "\n"
	case envelope.ChangeRemoved:
		if f.ran {
			mode = other
		}
		return "deleted file mode " + mode + "\n"
	}
	if f.Kind == envelope.ChangeMode || f.Mode != "" {
		return "old mode " + other + "\nnew mode " + mode + "\n"
	}
	return ""
}

// literal is a file as its bytes, which git holds to its object's name.
func (f *File) literal(from, to string) string {
	if len(f.now) > maxLiteral {
		return "Binary files " + from + " and " + to + " differ\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "index %s..%s\nGIT binary patch\nliteral %d\n", objectName(f.old, f.Kind == envelope.ChangeAdded), objectName(f.now, f.Kind == envelope.ChangeRemoved), len(f.now))
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write(f.now) // a buffer takes all
	_ = z.Close()
	for rest := packed.Bytes(); len(rest) > 0; {
		n := min(len(rest), 52)
		length := byte('A' + n - 1)
		if n > 26 {
			length = byte('a' + n - 27)
		}
		out.WriteByte(length)
		base85(&out, rest[:n])
		out.WriteByte('\n')
		rest = rest[n:]
	}
	out.WriteByte('\n')
	return out.String()
}

// objectName is what git calls a file of these bytes, or one that there is not.
func objectName(data []byte, none bool) string {
	if none {
		return strings.Repeat("0", 40)
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return fmt.Sprintf("%x", h.Sum(nil))
}

const digits85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// base85 writes bytes as git does: five digits for each four, the last filled up
// with zeros.
func base85(out *strings.Builder, data []byte) {
	for len(data) > 0 {
		var four [4]byte
		data = data[copy(four[:], data):]
		n := uint32(four[0])<<24 | uint32(four[1])<<16 | uint32(four[2])<<8 | uint32(four[3])
		var five [5]byte
		for i := len(five) - 1; i >= 0; i-- {
			five[i], n = digits85[n%85], n/85
		}
		out.Write(five[:])
	}
}

// patchName is a name as git reads it: as it is, or in quotes with octal escapes
// where something in it is not seen, or would end it.
func patchName(side, name string) string {
	if render.Name(strings.ReplaceAll(name, " ", "_")) == strings.ReplaceAll(name, " ", "_") {
		return side + name
	}
	var out strings.Builder
	out.WriteString(`"` + side)
	for _, b := range []byte(name) {
		switch {
		case b == '"' || b == '\\':
			out.WriteString(`\` + string(rune(b)))
		case b < ' ' || b >= 0x7f:
			fmt.Fprintf(&out, `\%03o`, b)
		default:
			out.WriteByte(b)
		}
	}
	return out.String() + `"`
}

// ended is a name on a line of its own: git takes a tab behind it for its end.
func ended(name string) string {
	if strings.Contains(name, " ") && name[0] != '"' {
		return name + "\t"
	}
	return name
}
