package assembly

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/image"
)

// PullOrder is an image that is to be pulled, as an operator asks for it.
type PullOrder struct {
	Ref      string // REF of oci:REF
	Insecure bool   // plain HTTP
	ImageReach
}

// BuildOrder is an image that is to be built, as an operator asks for it.
type BuildOrder struct {
	Name          string
	From          string // host, or oci:REF that was pulled
	Pip, NPM, Apt []string
	Run           []string // commands of the shell
	Lock          *image.Lock
	// PipIndex and NPMRegistry are where packages come from.
	PipIndex, NPMRegistry string
	ImageReach
}

// ImageReach is what the cell that makes an image may reach, beside where it
// comes from, and whom it is to trust there.
type ImageReach struct {
	Profile string // whose network it has, too; "" is none
	Allow   []envelope.Allow
	CA      []byte // PEM; empty is none
}

// network is what making may reach.
func (r *ImageReach) network(c *config.Config) (n envelope.Network, err error) {
	if r.Profile != "" {
		e, ok := c.Profile(r.Profile)
		if !ok {
			return n, &envelope.FieldError{Reason: envelope.ReasonRequest, Field: "profile", Msg: fmt.Sprintf("there is no profile %.64q", r.Profile), Hint: "callcell config shows them"}
		}
		n = e.Network
	}
	n.Fetch = envelope.Default().Network.Fetch
	n.Allow = with(slices.Clone(n.Allow), r.Allow...)
	return n, nil
}

// with returns a list with entries that it need not have yet: a profile, a flag
// and the address of an index may name one host alike. What they say of it
// differently stays, for Validate to refuse.
func with(list []envelope.Allow, more ...envelope.Allow) []envelope.Allow {
	for _, e := range more {
		e.Ports = slices.DeleteFunc(slices.Clone(e.Ports), func(port int) bool {
			return slices.ContainsFunc(list, func(a envelope.Allow) bool {
				return a.Host == e.Host && slices.Contains(a.Ports, port) && a.ProtocolOn(port) == e.ProtocolOn(port)
			})
		})
		if len(e.Ports) > 0 {
			list = append(list, e)
		}
	}
	return list
}

// PlanPull plans to pull an image from its registry, which it reaches.
func PlanPull(c *config.Config, o PullOrder) (*image.Plan, error) {
	if err := image.CheckName("oci:" + o.Ref); err != nil {
		return nil, err
	}
	host, port, err := image.Registry(o.Ref, o.Insecure)
	if err != nil {
		return nil, &image.Error{Kind: image.KindName, Name: "oci:" + o.Ref, Msg: err.Error(), Hint: "HOST/NAME:TAG"}
	}
	network, err := o.network(c)
	if err != nil {
		return nil, err
	}
	entry := image.Allow(host, port)
	if o.Insecure {
		entry.Protocol = envelope.ProtocolHTTP
	}
	network.Allow = with(network.Allow, entry)
	tool, err := ImageTool(c)
	if err != nil {
		return nil, err
	}
	return image.PlanPull(image.PullOptions{Ref: o.Ref, Network: network, Insecure: o.Insecure, CA: o.CA, Tool: tool, Limits: ImageLimits(c)})
}

// PlanBuild plans to build an image, from the indexes that the order names.
func PlanBuild(c *config.Config, o BuildOrder) (*image.Plan, error) {
	b := image.BuildOptions{Name: o.Name, Pip: o.Pip, NPM: o.NPM, Apt: o.Apt, Run: o.Run, Lock: o.Lock,
		PipIndex: o.PipIndex, NPMRegistry: o.NPMRegistry, CA: o.CA, Limits: ImageLimits(c)}
	var err error
	if b.Network, err = o.network(c); err != nil {
		return nil, err
	}
	for _, from := range []struct {
		packages       int
		field, address string
	}{{len(o.Pip), "pipIndex", o.PipIndex}, {len(o.NPM), "npmRegistry", o.NPMRegistry}} {
		if from.packages == 0 {
			continue
		}
		entry, err := IndexHost(from.address)
		if err != nil {
			return nil, &envelope.FieldError{Reason: envelope.ReasonRequest, Field: from.field, Msg: err.Error(), Hint: "write https://HOST/PATH"}
		}
		b.Network.Allow = with(b.Network.Allow, entry)
	}
	if b.Tool, err = ImageTool(c); err != nil {
		return nil, err
	}
	if o.From != "" && o.From != envelope.ImageHost {
		if b.Base, err = Index(c).Get(o.From); err != nil {
			return nil, err
		}
	}
	return image.PlanBuild(b)
}

// IndexHost is the entry of a network for an index of packages. Its address is
// what install scripts read: one with a password is refused, and is not said.
func IndexHost(address string) (envelope.Allow, error) {
	u, err := url.Parse(address)
	switch {
	case err == nil && u.User != nil, err != nil:
		return envelope.Allow{}, fmt.Errorf("is no address, or has a password in it, which no build is given")
	case u.Scheme != "https" || u.Hostname() == "":
		return envelope.Allow{}, fmt.Errorf("%.200q is not the https address of an index", address)
	}
	port := 443
	if text := u.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil {
			return envelope.Allow{}, fmt.Errorf("%q is not a port", text)
		}
	}
	return image.Allow(u.Hostname(), port), nil
}

// Images are the images of a house, for who manages them over it. It is safe for
// concurrent use.
type Images struct {
	*image.Index
	house  *House
	config *config.Config
}

// Images returns the images of a house.
func (h *House) Images(c *config.Config) *Images { return &Images{Index(c), h, c} }

// PlanPull plans a pull.
func (i *Images) PlanPull(o PullOrder) (*image.Plan, error) { return PlanPull(i.config, o) }

// PlanBuild plans a build.
func (i *Images) PlanBuild(o BuildOrder) (*image.Plan, error) { return PlanBuild(i.config, o) }

// makeTokens is what of the stream of an image is left in the result of its
// call, which nobody reads.
const makeTokens = 1

// Make carries out a plan for a caller, as a call of his: the plan's envelope is
// that of an operator and no profile. heard is told of the bytes of the stream
// so far; words hears what the call prints, data of a stranger.
func (i *Images) Make(ctx context.Context, who broker.Caller, p *image.Plan, live broker.Live, heard func(int64)) (*image.Made, error) {
	maker, err := i.house.Maker(i.config)
	if err != nil {
		return nil, err
	}
	maker.Heard, maker.Words = heard, live.Stderr
	c := i.house.parts
	c.Profiles = profiles{i.config, &p.Envelope}
	b, err := broker.New(c)
	if err != nil {
		return nil, err
	}
	who.Profiles = []string{broker.AnyProfile} // the call names none, which is the plan's
	if who.Key != "" {
		p.Call.MaxTokens = makeTokens
	}
	return maker.Make(ctx, p, func(ctx context.Context, call *envelope.Call, stdout, stderr io.Writer) *envelope.Result {
		return b.RunLive(ctx, who, call, broker.Live{Keep: live.Keep, Begun: live.Begun, Running: live.Running, Stdout: stdout, Stderr: stderr})
	})
}

// Collect removes the trees that no record of this house's names.
func (i *Images) Collect(ctx context.Context, dry bool) (*image.Collection, error) {
	owner, err := i.Owner()
	if err != nil {
		return nil, err
	}
	trees := i.house.runtimes.Trees(owner)
	if trees == nil {
		return nil, noImages()
	}
	return image.Collect(ctx, i.Index, trees, dry)
}
