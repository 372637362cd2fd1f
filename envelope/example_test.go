package envelope_test

import (
	"fmt"

	"github.com/callcell/callcell/envelope"
)

// A profile is read over the defaults. What is misspelt is named, with the
// word that was meant.
func ExampleDecodeEnvelope() {
	profile, err := envelope.DecodeEnvelope([]byte(`{"files": {"scratch": "128Mi"}}`), envelope.Default())
	fmt.Println(profile.Files.Scratch, profile.Resources.Wall, err)

	_, err = envelope.DecodeEnvelope([]byte(`{"files": {"scrach": "128Mi"}}`), envelope.Default())
	fmt.Println(err)
	fmt.Println(envelope.RefusalOf(err).Hint)

	_, err = envelope.DecodeEnvelope([]byte(`{"files": {"scratch": 67108864}}`), envelope.Default())
	fmt.Println(envelope.RefusalOf(err).Hint)
	// Output:
	// 128Mi 30s <nil>
	// files.scrach: unknown key "scrach"
	// did you mean "scratch"?
	// write "64Mi", not 67108864
}

// A request may ask for less. What is more is refused, not clamped.
func ExampleNarrow() {
	profile := envelope.Default()
	less, more := 32*envelope.MiB, 128*envelope.MiB

	narrowed, err := envelope.Narrow(profile, &envelope.Request{Files: &envelope.FilesRequest{Scratch: &less}})
	fmt.Println(narrowed.Files.Scratch, err, envelope.Within(narrowed, profile))

	_, err = envelope.Narrow(profile, &envelope.Request{Files: &envelope.FilesRequest{Scratch: &more}})
	refusal := envelope.RefusalOf(err)
	fmt.Println(refusal)
	fmt.Println(refusal.Hint)
	// Output:
	// 32Mi <nil> true
	// policy: files.scratch: asks 128Mi, the profile allows 64Mi
	// ask for at most 64Mi, or choose another profile
}

func ExampleCall_Validate() {
	call, err := envelope.DecodeCall([]byte(`{"argv": ["cat", "x"], "inputs": [{"name": "../x", "data": ""}]}`))
	fmt.Println(err)
	fmt.Println(call.Validate())
	// Output:
	// <nil>
	// inputs[0].name: "../x" has the component ..
}
