package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// few is a list in an answer, of at most so many elements: a byte or two of an
// answer can be an element that takes a hundred. most is set before it is read.
type few[T any] struct {
	most int
	list []T
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *few[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.New("something else in the place of a list")
	}
	for f.list = []T{}; d.More(); {
		if len(f.list) == f.most {
			return fmt.Errorf("a list of more than %d", f.most)
		}
		var v T
		if err := d.Decode(&v); err != nil {
			return err
		}
		f.list = append(f.list, v)
	}
	return nil
}

// read returns the list, where reading its answer ended with err. An answer without
// the list is not one that says that there is nothing.
func (f *few[T]) read(err error) ([]T, error) {
	if err == nil && f.list == nil {
		err = fmt.Errorf("%w: it has no list", ErrAnswer)
	}
	if err != nil {
		return nil, err
	}
	return f.list, nil
}
