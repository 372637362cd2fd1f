package unpack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/callcell/callcell/internal/image/erofs"
	"github.com/callcell/callcell/internal/image/fstree"
)

// A Found is what stands in a staging: the digest of the tree in each form,
// HEX, or "" where the form is not there.
type Found struct{ Dir, Image string }

// Check reads root/ and root.erofs beneath staging, every byte of them, and
// returns what trees they are, whatever a listing says. Both may be anybody's,
// and nobody may be changing them. What is not as Run leaves it, or is over the
// bounds of o, is a *fstree.Error.
func Check(staging *os.File, o Options) (f Found, err error) {
	if f.Dir, err = checkDir(int(staging.Fd()), o); err != nil {
		return Found{}, err
	}
	if f.Image, err = checkImage(int(staging.Fd()), o); err != nil {
		return Found{}, err
	}
	return f, nil
}

// digestOf returns the digest of a tree, HEX.
func digestOf(root *fstree.Node) (string, error) {
	sum := sha256.New()
	if err := fstree.List(sum, root); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// readImage returns the digest of the tree in an image.
func readImage(image io.ReaderAt, size int64, o Options) (string, error) {
	root, err := erofs.Read(image, size, erofs.Bounds{Entries: o.Entries, Bytes: o.Bytes})
	if errors.Is(err, erofs.ErrImage) {
		return "", fstree.Failed(fstree.KindForm, ImageName, "read it", err)
	}
	if err != nil {
		return "", fstree.Failed(fstree.KindDisk, ImageName, "read it", err)
	}
	return digestOf(root)
}

// CheckMain is `callcell-image check`: the answer is one line, the digests of
// root/ and of root.erofs with a space between, "-" for a form that is not
// there. A fault is a line of words. It returns the exit code, 0 or 1.
func CheckMain(args []string, answer, words io.Writer) int {
	f, err := check(args)
	if err == nil {
		_, err = fmt.Fprintf(answer, "%s %s\n", orDash(f.Dir), orDash(f.Image))
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(words, fstree.Line(err)) // the exit code says enough
	return 1
}

func check(args []string) (Found, error) {
	o, at, err := options("check", args)
	if err != nil {
		return Found{}, err
	}
	staging, err := os.Open(at)
	if err != nil {
		return Found{}, fstree.Failed(fstree.KindDisk, "", "open the staging directory", err)
	}
	defer staging.Close()
	return Check(staging, o)
}

func orDash(digest string) string {
	if digest == "" {
		return "-"
	}
	return digest
}
