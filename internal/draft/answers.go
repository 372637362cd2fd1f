package draft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// Answers are what somebody said that code may touch.
type Answers struct {
	Name        string
	Trust       envelope.Trust // zero: model
	Image       string         // "": host
	Read        []envelope.Allow
	Write       []envelope.Allow // in a profile apart
	Credentials []Credential
	Fetch       bool // the fetch tool may reach every public host
	Environment []string
	Memory      envelope.Size     // 0: the default
	Wall        envelope.Duration // 0: the default
}

// Credential is a secret that is used at the edge, on one host.
type Credential struct {
	Name, Source string
	Host, Path   string
}

// ParseCredential reads NAME=SOURCE@HOST/PATH.
func ParseCredential(text string) (Credential, error) {
	name, rest, named := strings.Cut(text, "=")
	i := strings.LastIndexByte(rest, '@')
	if !named || name == "" || i <= 0 {
		return Credential{}, fmt.Errorf("%.80q is not NAME=SOURCE@HOST/PATH", text)
	}
	host, path, _ := strings.Cut(rest[i+1:], "/")
	return Credential{Name: name, Source: rest[:i], Host: host, Path: "/" + path}, nil
}

// Profiles returns the profiles for the answers: one that reads, and one that
// writes where something may be written.
func (a *Answers) Profiles() []Profile {
	read := a.base(a.Name + "-read")
	read.About = "For tools that read: what they reach, they were allowed to ask for."
	read.hosts(a.Read, "you said that it is read from. What is sent along with a question is not looked into: every host is a way out")
	read.credentials(a.Credentials, []string{"GET", "HEAD"}, "only for what reads: the host's edge adds it to GET and HEAD, and the cell never has it")
	if a.Fetch {
		read.Envelope.Network.Fetch = envelope.FetchPublic
		read.because("network.fetch", "you said that documents may be fetched from anywhere. Nothing of them is executed")
	}
	if len(a.Write) == 0 && len(a.Credentials) == 0 {
		return []Profile{read}
	}
	write := a.base(a.Name + "-write")
	write.About = "For tools that change something out there: give it to fewer of them."
	write.hosts(a.Read, "you said that it is read from")
	write.hosts(a.Write, "you said that it is written to")
	write.credentials(a.Credentials, []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, "also for what writes: that is what this profile is for")
	return []Profile{read, write}
}

// base is a profile of what both have.
func (a *Answers) base(name string) Profile {
	p := Profile{Name: name, Envelope: envelope.Default()}
	e := &p.Envelope
	switch {
	case a.Trust.Valid() && a.Trust != e.Trust:
		e.Trust = a.Trust
		p.because("trust", "you said who writes the code")
	default:
		p.because("trust", "a model writes the code, and nobody reads it before it runs")
	}
	if a.Image != "" && a.Image != e.Image {
		e.Image = a.Image
		p.because("image", "you said what it needs to be there")
	}
	if len(a.Environment) > 0 {
		e.Environment = slices.Clone(a.Environment)
		p.because("environment", "you said that a call may set these")
	}
	if a.Memory > 0 && a.Memory != e.Resources.Memory {
		e.Resources.Memory = a.Memory
		p.because("resources.memory", "you said how much; scratch space counts as memory too")
	}
	if a.Wall > 0 && a.Wall != e.Resources.Wall {
		e.Resources.Wall = a.Wall
		p.because("resources.wall", "you said how long")
		if e.Resources.CPUTime < a.Wall {
			e.Resources.CPUTime = a.Wall
			p.because("resources.cpuTime", "as long as it may run, on one CPU")
		}
	}
	return p
}

// hosts allows hosts, each once.
func (p *Profile) hosts(all []envelope.Allow, why string) {
	for _, a := range all {
		have := slices.ContainsFunc(p.Envelope.Network.Allow, func(b envelope.Allow) bool { return b.Host == a.Host && slices.Equal(b.Ports, a.Ports) })
		if !have {
			p.Envelope.Network.Allow = append(p.Envelope.Network.Allow, a)
		}
		p.because(hostField(a.Host), why)
	}
}

// credentials gives the use of secrets, on hosts that it allows for them.
func (p *Profile) credentials(all []Credential, methods []string, why string) {
	for _, c := range all {
		p.hosts([]envelope.Allow{{Host: c.Host, Ports: []int{443}}}, "the credential "+c.Name+" is used there")
		p.Envelope.Credentials[c.Name] = envelope.Credential{Source: c.Source, Use: envelope.CredentialUse{
			Header: "Authorization", Format: "Bearer {}", Host: c.Host, Methods: methods, Path: c.Path}}
		p.because("credentials."+c.Name, why)
	}
}
