package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// strictly reads one JSON value with the fields of into and no others, and
// nothing after it: not even a bracket, which json.Decoder.More does not see.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something comes after it")
	}
	return nil
}
