package cell

import (
	"fmt"

	"github.com/callcell/callcell/envelope"
)

// Why an output was not taken, in the words that every level uses. The text
// goes into envelope.Miss.
const (
	MissAbsent    = "not there"
	MissIrregular = "not a regular file"
	MissNoDir     = "not a directory"
)

// MissCount says that caps.Count was met.
func MissCount(caps envelope.OutputCaps) string {
	return fmt.Sprintf("over the cap of %s files", caps.Count)
}

// MissBytes says that caps.Bytes was met.
func MissBytes(caps envelope.OutputCaps) string {
	return fmt.Sprintf("over the cap of %s", caps.Bytes)
}
