package envelope

import "time"

// MaxAttempts is how many attempts a row lists one by one; what comes after
// is counted in Egress.
const MaxAttempts = 256

// Egress is what a call tried to reach, as the host saw it.
type Egress struct {
	Attempts []Attempt `json:"attempts,omitempty"` // the first ones, one by one
	More     int64     `json:"more,omitempty"`     // attempts that are counted below alone

	Connections int64 `json:"connections"` // that were carried out
	Denied      int64 `json:"denied"`      // refused or cut by policy, names included
	Failed      int64 `json:"failed"`      // allowed, and the other side could not be reached
	Names       int64 `json:"names"`       // names that were asked for
	Sent        int64 `json:"sent"`        // bytes out
	Received    int64 `json:"received"`    // bytes in
	// Incomplete: the process that carried connections died: the sums are at
	// least so much.
	Incomplete bool `json:"incomplete,omitempty"`

	// Credentials is how many requests each credential was added to, by the
	// name of its entry; those that were used alone.
	Credentials map[string]int64 `json:"credentials,omitempty"`
	Masked      int64            `json:"masked,omitempty"` // values of credentials that were masked in answers
}

// Attempt is one try to reach a name or an address.
type Attempt struct {
	At       time.Time     `json:"at"`                 // when it began
	Host     string        `json:"host"`               // as asked for, in lower case: data of an untrusted program
	Port     int           `json:"port,omitempty"`     // 0: a name was asked for
	Protocol string        `json:"protocol,omitempty"` // that was spoken: tls, http, postgres or tcp
	Verdict  Verdict       `json:"verdict"`            // what became of it
	Why      string        `json:"why,omitempty"`      // the entry that matched or nearly matched, or what went wrong
	Address  string        `json:"address,omitempty"`  // that was dialled
	Blocked  string        `json:"blocked,omitempty"`  // the address that it led to, of a denial because of that
	Requests int64         `json:"requests,omitempty"` // that were seen in it, where requests are looked at
	Sent     int64         `json:"sent,omitempty"`     // bytes out
	Received int64         `json:"received,omitempty"` // bytes in
	Took     time.Duration `json:"tookNs,omitempty"`   // from its beginning to its end
	// Unchecked says what could not be looked into: "fronting" for TLS from
	// end to end, "content" for protocol tcp.
	Unchecked string `json:"unchecked,omitempty"`
}

// Verdict says what became of an Attempt. The zero value is invalid.
type Verdict uint8

// The members of Verdict.
const (
	VerdictAllowed Verdict = iota + 1 // it was carried
	VerdictDenied                     // nothing left this host for it
	VerdictCut                        // it was carried and then ended by policy or a cap
	VerdictFailed                     // it was allowed, and could not be reached
)

func verdicts() set {
	return set{"verdict", []string{"", "allowed", "denied", "cut", "failed"}}
}

// String returns the word of v.
func (v Verdict) String() string { return verdicts().text(uint8(v)) }

// Valid reports whether v is a member of the set.
func (v Verdict) Valid() bool { return verdicts().valid(uint8(v)) }

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return verdicts().marshal(uint8(v)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Verdict) UnmarshalText(b []byte) error {
	n, err := verdicts().parse(string(b))
	*v = Verdict(n)
	return err
}

// Fetch asks for one document by its address. Nothing of a stranger is
// executed for it: it runs at the level none.
type Fetch struct {
	URL   string `json:"url"`             // address, http or https, at most 8 KiB, without user information
	Text  bool   `json:"text,omitempty"`  // readable text of a page, not its bytes
	Bytes Size   `json:"bytes,omitempty"` // most bytes wanted of the decoded body; 0: the operator's cap
	Fresh bool   `json:"fresh,omitempty"` // do not answer from the cache
}

// Fetched is the answer to a Fetch. Everything in it is data of a stranger.
type Fetched struct {
	URL       string   `json:"url"`               // of the last hop
	Hops      []string `json:"hops,omitempty"`    // addresses that redirected, in order
	Status    int      `json:"status,omitempty"`  // 0: there was no answer
	Type      string   `json:"type,omitempty"`    // media type, without parameters
	Charset   string   `json:"charset,omitempty"` // that the body was decoded from
	Title     string   `json:"title,omitempty"`   // of a page, where text was asked for
	Body      Data     `json:"body,omitempty"`    // UTF-8 where there is a charset
	Bytes     int64    `json:"bytes"`             // of the decoded body, as far as it was read
	WireBytes int64    `json:"wireBytes"`         // of the body as it came
	Cached    bool     `json:"cached"`            // answered from the cache
	Cut       bool     `json:"cut"`               // there was more
	Failure   string   `json:"failure,omitempty"` // why there is no answer, or none to the end
	Untrusted bool     `json:"untrusted"`         // always true
}
