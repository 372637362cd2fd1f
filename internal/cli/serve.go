package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/heap"
	"github.com/callcell/callcell/internal/httpapi"
)

// garbage is how many bytes a daemon's memory may have of what nobody needs any
// more, where that is not said by GOGC. Kept answers are as large as it is told.
const garbage = 64 << 20

// serveCmd is "callcell serve". What it says goes before the environment, and
// that before the configuration.
type serveCmd struct {
	Listen *string `env:"CALLCELL_LISTEN" help:"ADDRESS:PORT to listen at. Default: the configuration's, 127.0.0.1:7420." placeholder:"ADDRESS"`
	Cert   *string `name:"tls-cert" env:"CALLCELL_TLS_CERT" help:"Certificate with its chain, PEM." type:"path" placeholder:"FILE"`
	Key    *string `name:"tls-key" env:"CALLCELL_TLS_KEY" help:"Its key, PEM." type:"path" placeholder:"FILE"`
	Log    string  `enum:"auto,text,json" default:"auto" env:"CALLCELL_LOG" help:"How to log: text, json; auto is text on a terminal." placeholder:"FORM"`
	Dev    bool    `help:"For trying it out: make a key, print it, and revoke it at the end; calls run as code that you have read."`
}

// Help is the long text of "callcell serve --help".
func (*serveCmd) Help() string {
	return `The daemon: an HTTP API for who has a key. What it offers is at /openapi.json.

  callcell serve --dev
  callcell team create ops && callcell key create --team ops --role admin && callcell serve

It listens on this host alone unless told otherwise. One daemon serves a state directory at a
time. It ends on SIGTERM or Ctrl-C: calls under way have serve.shutdown to end, then they are
cancelled; every one of them has its row. A socket of systemd is taken over.`
}

// Run serves until it is interrupted.
func (c *serveCmd) Run(a *app) error {
	cfg, err := c.config(a)
	if err != nil {
		return err
	}
	log := c.logger(a)
	for _, w := range cfg.Warnings() {
		log.Warn("configuration", "warning", w)
	}
	if os.Geteuid() == 0 && cfg.Serve.User == "" {
		log.Warn("configuration", "warning", "serve.user: there is none, so that the daemon is root, without its capabilities")
	}
	runtimes := assembly.StartLasting(cfg)
	l, err := listen(cfg.Serve.Listen)
	if err == nil {
		err = assembly.BecomeUser(cfg.Serve.User, cfg.State)
	}
	if err == nil {
		err = assembly.DropPrivileges()
	}
	if err != nil {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
		return errors.Join(err, runtimes.Close())
	}
	ctx, stop := a.interruptible()
	defer stop()
	house, err := assembly.OpenDaemon(ctx, runtimes, assembly.Options{Config: cfg, Watch: logWatch{log}, Version: a.version},
		func(err error) { log.Error("gateway", "error", flat(err)) })
	if err != nil {
		return errors.Join(serveFailure(err), l.Close())
	}
	return errors.Join(c.serve(ctx, a, cfg, house, l, log), leaveDaemon(house))
}

// serve runs the API over a house.
func (c *serveCmd) serve(ctx context.Context, a *app, cfg *config.Config, house *assembly.House, l net.Listener, log *slog.Logger) error {
	defer heap.Bound(garbage, os.Getenv("GOGC"))()
	if err := c.before(ctx, cfg, house, log); err != nil {
		return errors.Join(err, l.Close())
	}
	if c.Dev {
		forget, err := c.devKey(ctx, a, house.Gateway, scheme(cfg)+l.Addr().String())
		if err != nil {
			return errors.Join(err, l.Close())
		}
		defer forget()
	}
	health := house.Health(cfg)
	blobs := newCollector()
	api, err := httpapi.New(httpapi.Config{
		Metrics: metricsOf(cfg, house, health), Serve: cfg.Serve, DefaultProfile: cfg.DefaultProfile, Profiles: cfg.Profiles, Version: a.version, Runner: house.Broker,
		Rows: house.Rows(), Kept: house.Kept(), Jobs: house.Jobs(), Gateway: house.Gateway, Levels: house.Levels, Health: health.Report, Traces: house.Traces(), Log: log,
		Blobs: house.Blobs, Workspaces: house.Workspaces, Images: house.Images(cfg), Freed: blobs.freed,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	closeMetrics, err := serveMetrics(cfg, api, log)
	if err != nil {
		api.Close()
		return errors.Join(err, l.Close())
	}
	defer closeMetrics()
	log.Info("serving", "address", scheme(cfg)+l.Addr().String(), "state", cfg.State, "version", a.version)
	notify("READY=1")
	defer log.Info("ended")
	return beside(ctx, api, l, func(ctx context.Context) { prune(ctx, cfg, house, log) }, func(ctx context.Context) { blobs.run(ctx, house, log) },
		func(ctx context.Context) error { return barren(ctx, house, log) })
}

// beside runs the API until ctx ends, or there is no use in it any more, with two
// things that go on meanwhile.
func beside(ctx context.Context, api *httpapi.API, l net.Listener, prune, collect func(context.Context), useless func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	var behind sync.WaitGroup
	behind.Go(func() { prune(ctx) })
	behind.Go(func() { collect(ctx) })
	var lost error
	behind.Go(func() { lost = useless(ctx); stop() })
	err := api.Run(ctx, l)
	stop()
	behind.Wait()
	return errors.Join(err, lost)
}

// barren waits until no cell can be built any more, and says so: a daemon that
// is of no use ends, with a status, for whoever started it to start another. It
// returns nil when ctx ends first.
func barren(ctx context.Context, house *assembly.House, log *slog.Logger) error {
	err := house.Lost(ctx, func() {
		log.Warn("the starter of launchers is gone: the daemon goes on with those that it has, and ends with the last of them")
	})
	if err == nil {
		return nil
	}
	log.Error("no cell can be built any more: the daemon ends", "error", flat(err))
	return &failure{exitOwn, flat(err), "start the daemon again: as a unit of systemd it is started by itself"}
}

// before settles what an earlier daemon left, and says what there is to say.
func (c *serveCmd) before(ctx context.Context, cfg *config.Config, house *assembly.House, log *slog.Logger) error {
	if n := house.Gateway.Lost(); n > 0 {
		log.Warn("reservations of a daemon that died were settled", "calls", n)
	}
	if err := forgetDevKeys(ctx, house.Gateway); err != nil {
		return err
	}
	warnWeak(log, house)
	for _, fault := range house.TrySecrets(ctx) {
		log.Warn("there is no secret", "warning", fault)
	}
	return certificate(cfg)
}

// certificate refuses, before anybody is told of the daemon, files of TLS that
// it could not serve with.
func certificate(cfg *config.Config) error {
	if cfg.Serve.TLS.Cert == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(cfg.Serve.TLS.Cert, cfg.Serve.TLS.Key); err != nil {
		return usage("serve.tls: "+flat(err), "name a certificate and its key, PEM, that the daemon's user can read: --tls-cert, --tls-key")
	}
	return nil
}

// metricsOf are the numbers of a daemon; nil where nobody is to have them.
func metricsOf(cfg *config.Config, house *assembly.House, health *assembly.Health) *httpapi.Metrics {
	if cfg.Serve.Metrics == "" {
		return nil
	}
	m := httpapi.NewMetrics(house.Gateway.Load)
	m.Add(health.Numbers)
	return m
}

// serveMetrics serves the numbers where the configuration says, until they are
// closed.
func serveMetrics(cfg *config.Config, api *httpapi.API, log *slog.Logger) (closeAll func(), err error) {
	if cfg.Serve.Metrics == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", cfg.Serve.Metrics)
	if err != nil {
		return nil, usage(bareNet(err), "name another address: serve.metrics, in the configuration")
	}
	server, over := api.MetricsServer(), make(chan struct{})
	go func() {
		defer close(over)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are served no more", "error", flat(err))
		}
	}()
	log.Info("metrics", "address", "http://"+l.Addr().String()+"/metrics")
	return func() {
		_ = server.Close() // it ends
		<-over
	}, nil
}

// pruneEvery is how often rows are looked for that are old enough.
const pruneEvery = time.Hour

// prune takes rows that are old enough, until ctx ends.
func prune(ctx context.Context, cfg *config.Config, house *assembly.House, log *slog.Logger) {
	again := time.NewTicker(pruneEvery)
	defer again.Stop()
	for {
		report, err := house.Prune(ctx, cfg)
		switch {
		case err != nil && ctx.Err() == nil:
			log.Error("rows could not be pruned", "error", flat(err))
		case report.Calls > 0:
			log.Info("rows pruned", "calls", report.Calls)
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

func scheme(cfg *config.Config) string {
	if cfg.Serve.TLS.Cert != "" {
		return "https://"
	}
	return "http://"
}

func leaveDaemon(house *assembly.House) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return house.Close(ctx)
}

// config is the host's, with the flags over it.
func (c *serveCmd) config(a *app) (*config.Config, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	for _, f := range []struct{ from, into *string }{{c.Listen, &cfg.Serve.Listen}, {c.Cert, &cfg.Serve.TLS.Cert}, {c.Key, &cfg.Serve.TLS.Key}} {
		if f.from != nil {
			*f.into = *f.from
		}
	}
	if c.Dev {
		dev := envelope.Default()
		dev.Trust = envelope.TrustReviewed
		cfg.Profiles["dev"], cfg.DefaultProfile = dev, "dev"
	}
	err = cfg.Validate()
	var field *envelope.FieldError
	switch {
	case err == nil:
		return cfg, nil
	case c.Listen != nil && errors.As(err, &field) && field.Field == "serve.listen":
		return nil, usage(fmt.Sprintf("--listen %s: %s", *c.Listen, field.Msg), field.Hint)
	}
	return nil, &hostError{err}
}

func (c *serveCmd) logger(a *app) *slog.Logger {
	if c.Log == "text" || c.Log == "auto" && a.errTTY {
		return slog.New(slog.NewTextHandler(a.err, nil))
	}
	return slog.New(slog.NewJSONHandler(a.err, nil))
}

// The team and the label of keys for trying it out.
const (
	devTeam  = "dev"
	devLabel = "serve --dev"
)

// forgetDevKeys revokes keys for trying it out of a daemon that was killed:
// each is an admin's, and stands in a log.
func forgetDevKeys(ctx context.Context, g *gateway.Gateway) error {
	keys, err := g.Keys(ctx, devTeam)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.Label != devLabel || !k.Revoked.IsZero() {
			continue
		}
		if _, err := g.RevokeKey(ctx, k.ID); err != nil {
			return err
		}
	}
	return nil
}

// devKey makes a key for trying it out, and says how. forget revokes it.
func (c *serveCmd) devKey(ctx context.Context, a *app, g *gateway.Gateway, address string) (forget func(), err error) {
	if _, err := g.CreateTeam(ctx, gateway.Team{Name: devTeam, Tier: "enterprise"}); err != nil && !errors.Is(err, gateway.ErrExists) {
		return nil, err
	}
	k, secret, err := g.CreateKey(ctx, gateway.Key{Team: devTeam, Role: gateway.RoleAdmin, Profiles: []string{gateway.AllProfiles}, Label: devLabel})
	if err != nil {
		return nil, err
	}
	a.say("a key for this run: " + secret)
	a.say("calls run at the container level as code that you have read: for trying out only")
	fmt.Fprintf(a.err, "\n  curl -s %s/v1/calls -H 'Authorization: Bearer %s' \\\n    -H 'Content-Type: application/json' -d '{\"argv\":[\"echo\",\"hello\"]}'\n\n", address, secret)
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if _, err := g.RevokeKey(ctx, k.ID); err != nil {
			a.say("the key of this run could not be revoked: " + flat(err))
		}
	}, nil
}

// listen takes over the socket of systemd, or opens one.
func listen(address string) (net.Listener, error) {
	if os.Getenv("LISTEN_PID") == fmt.Sprint(os.Getpid()) && os.Getenv("LISTEN_FDS") == "1" {
		f := os.NewFile(3, "systemd")
		defer f.Close()
		return net.FileListener(f)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, usage(bareNet(err), "name another with --listen, or end who has it")
	}
	return l, nil
}

func bareNet(err error) string { return strings.ReplaceAll(err.Error(), "\n", " ") }

// notify tells systemd, where it started us.
func notify(state string) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	c, err := net.Dial("unixgram", name)
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(state))
}

// serveFailure is what keeps a daemon from serving.
func serveFailure(err error) error {
	var held *assembly.HeldError
	if errors.As(err, &held) {
		return &failure{exitOwn, held.Error(), "end that one first, or name another directory: state, in the configuration"}
	}
	return logFailure(err)
}

// logWatch writes what an operator must hear of.
type logWatch struct{ log *slog.Logger }

// Leftover implements broker.Watch.
func (w logWatch) Leftover(id string, level envelope.Level, report envelope.Report) {
	for _, check := range report.Checks {
		if !check.Gone {
			w.log.Error("left over", "call", id, "level", level.String(), "what", check.What, "note", check.Note)
		}
	}
}

// Log implements assembly.LogWatch.
func (w logWatch) Log(text string) { w.log.Error("log", "error", text) }

// Unrecorded implements broker.Watch.
func (w logWatch) Unrecorded(id string, err error) {
	w.log.Error("a row could not be completed", "call", id, "error", flat(err))
}

// Panicked implements broker.Watch.
func (w logWatch) Panicked(id, step string, value any, stack []byte) {
	w.log.Error("a failure of our own", "call", id, "step", step, "panic", fmt.Sprint(value), "stack", string(stack))
}

// warnWeak says which levels are worth less here than their names, and where
// there is none at all: then every call is refused.
func warnWeak(log *slog.Logger, house *assembly.House) {
	none, why := true, ""
	for _, level := range house.Levels() {
		if level.Worth.Valid() && level.Worth < level.Level {
			log.Warn("level", "warning", fmt.Sprintf("%s is worth no more than %s here: %s", level.Level, level.Worth, level.Weakness))
		}
		if none = none && !level.Available; level.Level == envelope.LevelContainer {
			why = level.Why
		}
	}
	if none {
		log.Error("no level of isolation is to be had here: every call will be refused", "container", why, "hint", "callcell levels says what each needs")
	}
}
