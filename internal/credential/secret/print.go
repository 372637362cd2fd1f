package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Mask is what a Secret prints as.
const Mask = "[secret]"

// Format writes the mask, whatever the verb and its flags.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Mask) }

// String returns the mask.
func (Secret) String() string { return Mask }

// GoString returns the mask.
func (Secret) GoString() string { return Mask }

// LogValue returns the mask.
func (Secret) LogValue() slog.Value { return slog.StringValue(Mask) }

// MarshalText returns the mask: encoders of XML, YAML and the like use it.
// There is nothing that reads a Secret back.
func (Secret) MarshalText() ([]byte, error) { return []byte(Mask), nil }

// MarshalJSON returns the mask as a string.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + Mask + `"`), nil }
