package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Image is one image of the host.
type Image struct {
	Name    string    `json:"name"`
	Digest  string    `json:"digest"` // of all that it is made of, sha256:HEX
	Bytes   int64     `json:"bytes"`
	Entries int64     `json:"entries"`
	Made    time.Time `json:"made"`
}

// Images lists the images of the host; host itself is always there beside them.
func (c *Client) Images(ctx context.Context) ([]Image, error) {
	var list struct {
		Images []Image `json:"images"`
	}
	return list.Images, c.do(ctx, http.MethodGet, "/v1/images", nil, &list)
}

// ImageDetail is what is known of one image.
type ImageDetail struct {
	Digest string          `json:"digest"` // "" for host without a snapshot
	Record json.RawMessage `json:"record"` // as callcell image inspect --json has it
}

// Image says what an image is made of.
func (c *Client) Image(ctx context.Context, name string) (*ImageDetail, error) {
	d := new(ImageDetail)
	return result(d, c.do(ctx, http.MethodGet, "/v1/images/inspect?name="+url.QueryEscape(name), nil, d))
}

// RemoveImage forgets an image; its space is free with the next CollectImages.
// It is for a key of role admin, as all that follows.
func (c *Client) RemoveImage(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, "/v1/images?name="+url.QueryEscape(name), nil, nil)
}

// ImageCollection is what a collection of images did.
type ImageCollection struct {
	Removed []ImageTree `json:"removed"` // trees that no image names
	InUse   []ImageTree `json:"inUse"`   // such, that cells have
	Kept    int         `json:"kept"`
	Bytes   int64       `json:"bytes"`   // that Removed had
	Missing []string    `json:"missing"` // images whose trees are not there
}

// ImageTree is one tree of the store.
type ImageTree struct {
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`
}

// CollectImages removes what no image needs, or only says so.
func (c *Client) CollectImages(ctx context.Context, dryRun bool) (*ImageCollection, error) {
	out := new(ImageCollection)
	return result(out, c.do(ctx, http.MethodPost, "/v1/images/gc", map[string]bool{"dryRun": dryRun}, out))
}

// Reach is what the cell that makes an image may reach, beside where it comes
// from.
type Reach struct {
	Profile string           `json:"profile,omitempty"` // whose network it has too
	Allow   []envelope.Allow `json:"allow,omitempty"`
	CA      string           `json:"ca,omitempty"` // PEM
}

// Pull is an image that is to be pulled.
type Pull struct {
	Ref      string `json:"ref"`                // HOST/NAME:TAG; the image is oci:REF then
	Insecure bool   `json:"insecure,omitempty"` // plain HTTP
	Reach
}

// Build is an image that is to be built.
type Build struct {
	Name        string          `json:"name"`           // the image is build:NAME then
	From        string          `json:"from,omitempty"` // "" is host
	Pip         []string        `json:"pip,omitempty"`
	NPM         []string        `json:"npm,omitempty"`
	Apt         []string        `json:"apt,omitempty"`
	Run         []string        `json:"run,omitempty"`
	PipIndex    string          `json:"pipIndex,omitempty"`
	NPMRegistry string          `json:"npmRegistry,omitempty"`
	Lock        json.RawMessage `json:"lock,omitempty"` // of a record
	Reach
}

// ImageJob is the making of an image.
type ImageJob struct {
	ID      string          `json:"id"`
	What    string          `json:"what"` // "pull" or "build"
	Image   string          `json:"image"`
	State   string          `json:"state"` // "running", "done", "failed", or "lost": the daemon died before it was made
	Started time.Time       `json:"started"`
	Ended   time.Time       `json:"ended"`
	Bytes   int64           `json:"bytes"` // of its stream, so far
	Call    string          `json:"call"`  // whose row says how it was made
	Digest  string          `json:"digest"`
	Record  json.RawMessage `json:"record"`
	Problem *Problem        `json:"problem"` // where it failed
}

// PullImage begins to pull an image. It goes on when the client is gone.
func (c *Client) PullImage(ctx context.Context, p Pull, options ...Option) (*ImageJob, error) {
	j := new(ImageJob)
	return result(j, c.do(ctx, http.MethodPost, "/v1/images/pull", p, j, options...))
}

// BuildImage begins to build an image, as PullImage does to pull one.
func (c *Client) BuildImage(ctx context.Context, b Build, options ...Option) (*ImageJob, error) {
	j := new(ImageJob)
	return result(j, c.do(ctx, http.MethodPost, "/v1/images/build", b, j, options...))
}

// ImageJobs lists those that run and the last that have ended, newest first.
func (c *Client) ImageJobs(ctx context.Context) ([]ImageJob, error) {
	var list struct {
		Jobs []ImageJob `json:"jobs"`
	}
	return list.Jobs, c.do(ctx, http.MethodGet, "/v1/images/jobs", nil, &list)
}

// ImageJob reads one.
func (c *Client) ImageJob(ctx context.Context, id string) (*ImageJob, error) {
	j := new(ImageJob)
	return result(j, c.do(ctx, http.MethodGet, "/v1/images/jobs/"+url.PathEscape(id), nil, j))
}

// CancelImage cancels one. Of one that has ended it is nothing.
func (c *Client) CancelImage(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "/v1/images/jobs/"+url.PathEscape(id), nil, nil)
}

// ImageEvent is what is told of an image while it is made.
type ImageEvent struct {
	ID    int    // to go on from
	Kind  string // begun, running, progress, words or done; new ones may come
	Call  string // of begun
	Bytes int64  // of progress
	// Data is what was printed, of words: data of an untrusted program.
	Data envelope.Data
}

// FollowImage hands every event of a job after one to hear, until the last, and
// returns how it ended. An error of hear ends the hearing, not the job.
func (c *Client) FollowImage(ctx context.Context, id string, after int, hear func(ImageEvent) error) (*ImageJob, error) {
	resp, err := c.request(ctx, http.MethodGet, "/v1/images/jobs/"+url.PathEscape(id)+"/events", nil,
		func(h http.Header) { h.Set("Last-Event-ID", strconv.Itoa(after)) })
	if err != nil {
		return nil, err
	}
	var job *ImageJob
	err = events(resp, func(id int, kind string, data []byte) (bool, error) {
		e := ImageEvent{ID: id, Kind: kind}
		if kind == "done" {
			job = new(ImageJob)
			if err := json.Unmarshal(data, job); err != nil {
				return false, fmt.Errorf("%w: %w", ErrAnswer, err)
			}
			return true, hear(e)
		}
		var v struct {
			ID    string        `json:"id"`
			Bytes int64         `json:"bytes"`
			Data  envelope.Data `json:"data"`
		}
		if err := json.Unmarshal(data, &v); err != nil {
			return false, fmt.Errorf("%w: event %s: %w", ErrAnswer, kind, err)
		}
		e.Call, e.Bytes, e.Data = v.ID, v.Bytes, v.Data
		return false, hear(e)
	})
	return result(job, err)
}
