// Package wire is what front and egress process say to each other.
//
// There are two kinds of conversation, both over SOCK_SEQPACKET pairs, one
// JSON object a message (Message, exactly one member set) and at most
// MaxMessage bytes:
//
//	control, one for each egress process
//	front                                   egress
//	-----                                   ------
//	Setup + roots            ------->       once, first
//	                         <-------       Hello
//	Begin + call, sockets    ------->       once for each call
//	(hang up)                ------->       ends the process
//
//	call, one for each call: made by the front, one end of it sent with Begin
//	Grant                    ------->       where Begin says so, before all else;
//	secret ... secret        ------->       then the secret of each credential
//	                         <-------       Ready, or Refused
//	Conn + socket            ------->       a connection of a level that tunnels
//	Fetch                    ------->       once, where the call is one
//	                         <-------       Dialled, when a connection has been
//	                         <-------       Line, when one has ended or was refused;
//	                                        with those that are dialled and have none
//	                                        yet at most envelope.MaxAttempts
//	                         <-------       Body, then Fetched
//	End                      ------->       no more connections; cut those there are
//	                         <-------       Done; after it the egress process
//	                                        holds nothing of the call
//	(hang up)                ------->       the same as End, unanswered
//
// A secret is a message of its bytes and nothing else, in the order of Grant's
// list. So it goes from the memory in which the front holds it to that in
// which the egress process does, and no encoder, whose buffers nobody clears,
// gets to see it.
//
// The egress process parses what strangers send, so the front believes
// nothing of it: messages are bounded and decoded strictly, lines are data,
// and no decision of the front rests on them.
package wire

import (
	"net/netip"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/secret"
)

// Version is the protocol's version. Front and egress process come from one
// build; another version ends the conversation.
const Version = 1

// The bounds of a message.
const (
	MaxMessage = 192 << 10 // bytes
	MaxFDs     = 80        // descriptors
	MaxBody    = 64 << 10  // bytes of one Body

	MaxCredentials = 32      // of one Grant
	MaxSecret      = 8 << 10 // bytes of one credential's secret
)

// Message is one message: exactly one member is set.
type Message struct {
	Setup *Setup `json:"setup,omitempty"`
	Begin *Begin `json:"begin,omitempty"`
	Grant *Grant `json:"grant,omitempty"`
	Conn  *Conn  `json:"conn,omitempty"`
	Fetch *Fetch `json:"fetch,omitempty"`
	End   *End   `json:"end,omitempty"`

	Hello   *Hello   `json:"hello,omitempty"`
	Ready   *Ready   `json:"ready,omitempty"`
	Refused *Refused `json:"refused,omitempty"`
	// Dialled is a connection that was dialled and is to have a Line: At, Host
	// and Port are the same there. Its verdict is allowed, and it has no sums.
	// It is sent before a byte of the program's goes out.
	Dialled *envelope.Attempt `json:"dialled,omitempty"`
	Line    *envelope.Attempt `json:"line,omitempty"`
	Body    *Body             `json:"body,omitempty"`
	Fetched *Fetched          `json:"fetched,omitempty"`
	Done    *Done             `json:"done,omitempty"`
}

// Setup is what the process is told once. One descriptor comes with it: a
// sealed memory file with the certificate authorities of this host, PEM.
type Setup struct {
	Version   int            `json:"version"`
	Resolvers []string       `json:"resolvers"`       // ADDRESS:PORT, asked in order
	Hosts     []Host         `json:"hosts,omitempty"` // names that this host knows by itself
	Deny      []netip.Prefix `json:"deny,omitempty"`  // the operator's, beside what is never dialled
	Limits    Limits         `json:"limits"`
}

// Host is one name of this host's own table.
type Host struct {
	Name  string       `json:"name"` // lower case, without a final dot
	Addrs []netip.Addr `json:"addrs"`
}

// Limits are the operator's. All are positive.
type Limits struct {
	Connections     int           `json:"connections"`     // of a call, at once
	AllConnections  int           `json:"allConnections"`  // of the process, at once
	CallConnections int           `json:"callConnections"` // of a call, in all
	Names           int           `json:"names"`           // names of a call that get an address
	Bytes           int64         `json:"bytes"`           // of a call, both ways together
	Dial            time.Duration `json:"dialNs"`          // to resolve and connect
	Idle            time.Duration `json:"idleNs"`          // without a byte either way
	Total           time.Duration `json:"totalNs"`         // of one connection

	FetchBytes   int64         `json:"fetchBytes"`   // of a decoded body
	FetchHeader  int64         `json:"fetchHeader"`  // of an answer's headers
	FetchTotal   time.Duration `json:"fetchTotalNs"` // of a fetch with all its hops
	FetchHops    int           `json:"fetchHops"`    // redirects that are followed
	CacheEntries int           `json:"cacheEntries"`
	CacheFor     time.Duration `json:"cacheForNs"`
	CacheBytes   int64         `json:"cacheBytes"` // of all entries together
	FetchPorts   []int         `json:"fetchPorts"` // where network.fetch is public
}

// The uses of the sockets that come with Begin.
const (
	UseCall   = "call"    // the call's own conversation; always the first
	UseDNS    = "dns"     // UDP, at the address of the cell's resolv.conf
	UseDNSTCP = "dns-tcp" // TCP, there too
	UseProxy  = "proxy"   // TCP, a proxy for programs that want one
	UseListen = "listen"  // TCP, any local address, one allowed port
)

// Begin begins a call. The descriptors that come with it are named, in order,
// by Sockets.
type Begin struct {
	ID      string           `json:"id"`
	Team    string           `json:"team,omitempty"` // whose cache entries it may see
	Network envelope.Network `json:"network"`
	Sockets []Socket         `json:"sockets"`
	// Granted says that a Grant follows, on the call's own conversation.
	Granted bool `json:"granted,omitempty"`
}

// Grant is what the call may use and is not given: 1 to MaxCredentials. Their
// secrets follow.
type Grant struct {
	Credentials []Credential `json:"credentials"`
}

// Credential is a header that the egress process adds to requests to one host
// and port, over TLS alone.
type Credential struct {
	Name    string   `json:"name"`   // of the envelope's entry
	Header  string   `json:"header"` // Authorization
	Format  string   `json:"format"` // of the value: Bearer {}
	Host    string   `json:"host"`   // canonical
	Port    int      `json:"port"`
	Methods []string `json:"methods"`
	Path    string   `json:"path"` // prefix of escaped paths, byte by byte
	// Secret takes the place of {} in Format. It is not written into a
	// message of JSON.
	Secret secret.Secret `json:"-"`
}

// Socket is one descriptor of Begin.
type Socket struct {
	Use  string `json:"use"`
	Port int    `json:"port,omitempty"` // of UseListen
}

// Conn is one connection of a program that its guest tunnels: the descriptor
// that comes with it is a stream socket of the UNIX family whose other end the
// program's bytes come from. It is judged as one that was accepted.
//
// What goes to the program has a frame: two bytes, the greater first, that say
// how many follow. A frame of none says that nothing more comes; where the
// socket ends without it, the connection has broken, and the program is to see
// that. What comes from the program has none: it has said all when the front
// has shut down its side, and has broken the connection off when the front has
// closed it.
type Conn struct {
	Local netip.AddrPort `json:"local"` // the address in the cell that it was made to: the guest's word
	// Datagrams says that it is no connection but an exchange with the name
	// server: both ways datagrams, each with its length before it in two
	// bytes. Each is answered, in order, by an empty one where there is no
	// answer. There are no other frames then.
	Datagrams bool `json:"datagrams,omitempty"`
}

// Fetch asks for one document.
type Fetch struct {
	envelope.Fetch
}

// End ends the call.
type End struct{}

// Hello is the process's first message.
type Hello struct {
	Version int `json:"version"`
	PID     int `json:"pid"`
}

// Ready says that the call's sockets are served.
type Ready struct {
	// CA is the certificate of the call's own authority, PEM; "" where no
	// entry inspects and there is no credential for a host that is allowed.
	CA string `json:"ca,omitempty"`
}

// Refused says that the call could not begin; nothing of it is held.
type Refused struct {
	Why string `json:"why"`
}

// Body is the next piece of a fetched body.
type Body struct {
	Data []byte `json:"data"`
}

// Fetched ends a fetch. Its Body is empty: it came before.
type Fetched struct {
	envelope.Fetched
	// Refused is set where the address itself is not allowed: nothing has
	// left this host.
	Refused *envelope.Refusal `json:"refused,omitempty"`
}

// Done ends a call. The counters are those of all attempts, Attempts is
// empty: the lines came before. Incomplete is the front's to say.
type Done struct {
	envelope.Egress
	// MaskedBy is how often values were masked in answers, by the name of the
	// credential. Egress.Masked is left to the front.
	MaskedBy map[string]int64 `json:"maskedBy,omitempty"`
}
