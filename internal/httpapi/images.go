package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/image"
)

// Images keeps the images of this host, which all teams share, and makes them
// by calls. It is called concurrently.
type Images interface {
	List() ([]*image.Record, error)
	Get(name string) (*image.Record, error)
	Remove(ctx context.Context, name string) error
	Collect(ctx context.Context, dry bool) (*image.Collection, error)
	PlanPull(assembly.PullOrder) (*image.Plan, error)
	PlanBuild(assembly.BuildOrder) (*image.Plan, error)
	// Make carries out a plan, as a call of who's. heard is told of the bytes so
	// far; live.Stderr hears what is printed meanwhile.
	Make(ctx context.Context, who broker.Caller, p *image.Plan, live broker.Live, heard func(bytes int64)) (*image.Made, error)
}

// ImageInfo is what is said of an image in a list.
type ImageInfo struct {
	Name    string    `json:"name" doc:"host, oci:REF or build:NAME"`
	Digest  string    `json:"digest" doc:"Of all that it is made of, sha256:HEX"`
	Bytes   int64     `json:"bytes" doc:"Of the tree that was made for it"`
	Entries int64     `json:"entries" doc:"Files, directories and links of it"`
	Made    time.Time `json:"made" doc:"When it was made"`
}

// ImageList is the answer to GET /v1/images.
type ImageList struct {
	Images []ImageInfo `json:"images" doc:"By name; host, the slice of this host's own programs, is always there beside them"`
}

// listImages is GET /v1/images.
func listImages(a *API, _ *request) (any, error) {
	records, err := a.Images.List()
	if err != nil { // the others are there
		a.Log.Error("images", "error", err.Error())
	}
	out := ImageList{Images: []ImageInfo{}}
	for _, r := range records {
		out.Images = append(out.Images, ImageInfo{r.Name, r.Digest(), r.Bytes, r.Entries, r.Made.UTC()})
	}
	return out, nil
}

// ImageDetail is the answer to GET /v1/images/inspect.
type ImageDetail struct {
	Digest string        `json:"digest,omitempty" doc:"Of all that it is made of, sha256:HEX; absent for host without a snapshot"`
	Record *image.Record `json:"record" doc:"How it was made"`
}

// inspectImage is GET /v1/images/inspect.
func inspectImage(a *API, req *request) (any, error) {
	name := req.r.URL.Query().Get("name")
	r, err := a.Images.Get(name)
	var fault *image.Error
	if name == envelope.ImageHost && errors.As(err, &fault) && fault.Kind == image.KindAbsent {
		return ImageDetail{Record: &image.Record{Version: 1, Name: name}}, nil // it is there without a record
	}
	if err != nil {
		return nil, err
	}
	return ImageDetail{r.Digest(), r}, nil
}

// ImageRemoved is the answer to DELETE /v1/images.
type ImageRemoved struct {
	Name string `json:"name" doc:"That is forgotten"`
}

// removeImage is DELETE /v1/images. Its trees go with the next collection.
func removeImage(a *API, req *request) (any, error) {
	name := req.r.URL.Query().Get("name")
	return ImageRemoved{name}, a.Images.Remove(req.ctx(), name)
}

// ImageGC is the body of POST /v1/images/gc.
type ImageGC struct {
	DryRun bool `json:"dryRun,omitempty" doc:"Only say what would go"`
}

// ImageTree is one tree of the store.
type ImageTree struct {
	Digest string `json:"digest" doc:"sha256:HEX"`
	Bytes  int64  `json:"bytes" doc:"That it has"`
}

// ImageCollection is the answer to POST /v1/images/gc.
type ImageCollection struct {
	Removed []ImageTree `json:"removed" doc:"Trees that no image names"`
	InUse   []ImageTree `json:"inUse" doc:"Trees that no image names, and that cells have"`
	Kept    int         `json:"kept" doc:"Trees that images name"`
	Bytes   int64       `json:"bytes" doc:"That removed had"`
	Missing []string    `json:"missing" doc:"Images whose trees are not there: make them anew"`
}

// collectImages is POST /v1/images/gc.
func collectImages(a *API, req *request) (any, error) {
	in, err := decode[ImageGC](req)
	if err != nil {
		return nil, err
	}
	c, err := a.Images.Collect(req.ctx(), in.DryRun)
	if err != nil {
		return nil, err
	}
	return ImageCollection{treesOf(c.Removed), treesOf(c.InUse), c.Kept, c.Bytes, append([]string{}, c.Missing...)}, nil
}

func treesOf(list []image.Tree) []ImageTree {
	out := []ImageTree{}
	for _, t := range list {
		out = append(out, ImageTree{t.Digest, t.Bytes})
	}
	return out
}

// ImageReach is what the cell that makes an image may reach, beside where the
// image comes from.
type ImageReach struct {
	Profile string           `json:"profile,omitempty" doc:"Whose network it has too, for addresses that are not public"`
	Allow   []envelope.Allow `json:"allow,omitempty" doc:"Hosts that it may reach too"`
	CA      string           `json:"ca,omitempty" doc:"Authorities that it trusts beside the usual ones, PEM"`
}

func (r *ImageReach) reach() assembly.ImageReach {
	return assembly.ImageReach{Profile: r.Profile, Allow: r.Allow, CA: []byte(r.CA)}
}

// ImagePull is the body of POST /v1/images/pull.
type ImagePull struct {
	Ref      string `json:"ref" doc:"HOST/NAME:TAG or HOST/NAME@sha256:HEX, also behind oci:; the image is oci:REF then"`
	Insecure bool   `json:"insecure,omitempty" doc:"Speak plain HTTP to the registry"`
	ImageReach
}

// pullImage is POST /v1/images/pull.
func pullImage(a *API, req *request) (any, error) {
	in, err := decode[ImagePull](req)
	if err != nil {
		return nil, err
	}
	ref := strings.TrimPrefix(in.Ref, "oci:") // as the command line and the image's name have it
	plan, err := a.Images.PlanPull(assembly.PullOrder{Ref: ref, Insecure: in.Insecure, ImageReach: in.reach()})
	if err != nil {
		return nil, err
	}
	return a.make(req, "pull", plan)
}

// ImageBuild is the body of POST /v1/images/build.
type ImageBuild struct {
	Name        string      `json:"name" doc:"The image is build:NAME then"`
	From        string      `json:"from,omitempty" doc:"Its base: host, or oci:REF that was pulled; host where it is not said"`
	Pip         []string    `json:"pip,omitempty" doc:"Packages of Python's index"`
	NPM         []string    `json:"npm,omitempty" doc:"Packages of npm's registry"`
	Apt         []string    `json:"apt,omitempty" doc:"Packages of the base's distribution"`
	Run         []string    `json:"run,omitempty" doc:"Commands of the shell; what they leave in $PREFIX is at /opt/callcell later"`
	PipIndex    string      `json:"pipIndex,omitempty" doc:"Where Python's packages come from, https"`
	NPMRegistry string      `json:"npmRegistry,omitempty" doc:"Where npm's come from, https"`
	Lock        *image.Lock `json:"lock,omitempty" doc:"Install exactly this: the lock of a record"`
	ImageReach
}

// buildImage is POST /v1/images/build. Install scripts are code of third
// parties: there is no word here that makes them anything else.
func buildImage(a *API, req *request) (any, error) {
	in, err := decode[ImageBuild](req)
	if err != nil {
		return nil, err
	}
	lock, err := lockOf(in.Lock)
	if err != nil {
		return nil, err
	}
	plan, err := a.Images.PlanBuild(assembly.BuildOrder{Name: in.Name, From: in.From, Pip: in.Pip, NPM: in.NPM, Apt: in.Apt, Run: in.Run,
		Lock: lock, PipIndex: in.PipIndex, NPMRegistry: in.NPMRegistry, ImageReach: in.reach()})
	if err != nil {
		return nil, err
	}
	return a.make(req, "build", plan)
}

// lockOf holds a lock to what a lock file may say; nil where there is none.
func lockOf(l *image.Lock) (*image.Lock, error) {
	if l == nil {
		return nil, nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return nil, problem("request", "not a lock", "send the lock of a record as it is").at("lock")
	}
	return image.ParseLock(text)
}

// imageProblem is what is said of an error of images, or nil.
func imageProblem(err error) *Problem {
	var fault *image.Error
	if !errors.As(err, &fault) {
		return nil
	}
	if fault.Kind == image.KindInUse && errors.Is(err, context.DeadlineExceeded) {
		p := problem("capacity", "images are being made", "try again when they are there")
		p.Retry = true
		return p
	}
	switch fault.Kind {
	case image.KindName:
		return problem("request", fault.Error(), fault.Hint)
	case image.KindAbsent:
		return problem("not_found", fault.Error(), fault.Hint)
	case image.KindInUse:
		return problem("conflict", fault.Error(), fault.Hint)
	case image.KindQuota:
		return problem("quota", fault.Error(), fault.Hint)
	case image.KindSource, image.KindProgram:
		return problem("image", fault.Error(), fault.Hint)
	}
	return nil
}
