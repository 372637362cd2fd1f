package source

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/callcell/callcell/internal/credential/secret"
)

// oauth2Client gets tokens by the client credentials grant.
type oauth2Client struct {
	client *http.Client
	OAuth2Settings
	secret Source
}

func (*oauth2Client) Kind() Kind    { return OAuth2 }
func (*oauth2Client) Group() string { return "" }
func (*oauth2Client) Field() string { return "" }

func (s *Set) newOAuth2(name string, settings OAuth2Settings) (*oauth2Client, error) {
	field := "oauth2." + name
	if _, err := checkURL(field+".tokenURL", settings.TokenURL); err != nil {
		return nil, err
	}
	if settings.RevokeURL != "" {
		if _, err := checkURL(field+".revokeURL", settings.RevokeURL); err != nil {
			return nil, err
		}
	}
	if settings.ClientID == "" {
		return nil, &SettingError{field + ".clientID", "is missing", "write the id that the server knows this host by"}
	}
	switch settings.Auth {
	case "", "basic", "body":
	default:
		return nil, &SettingError{field + ".auth", "is not a way to say who one is", "write basic or body"}
	}
	inner, err := s.inner(field+".secret", settings.Secret)
	if err != nil {
		return nil, err
	}
	return &oauth2Client{s.client, settings, inner}, nil
}

// post sends a form as this client.
func (c *oauth2Client) post(ctx context.Context, call, to string, form url.Values) (*answer, error) {
	g, err := c.secret.Fetch(ctx, Request{Call: call, Fields: []string{""}})
	if err != nil {
		fault := FaultOf(c.secret.Kind(), err)
		return nil, &Fault{OAuth2, fault.Reason, "the client's secret: " + fault.Error(), fault.Hint}
	}
	defer g.Destroy()
	if c.Auth == "body" {
		form.Set("client_id", c.ClientID)
		form.Set("client_secret", whole(g.Secrets[""]))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, &Fault{OAuth2, Invalid, "the server's address cannot be asked", "check it in the configuration"}
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if c.Auth != "body" {
		r.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(whole(g.Secrets[""])))
	}
	return ask(c.client, OAuth2, r)
}

// Fetch asks for a token.
func (c *oauth2Client) Fetch(ctx context.Context, r Request) (*Grant, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(r.Scopes) > 0 {
		form.Set("scope", strings.Join(r.Scopes, " "))
	}
	if c.Audience != "" {
		form.Set("audience", c.Audience)
	}
	a, err := c.post(ctx, r.Call, c.TokenURL, form)
	if err != nil {
		return nil, err
	}
	defer clear(a.body)
	if a.status != http.StatusOK {
		return nil, oauth2Fault(a)
	}
	return c.grant(ctx, r, a.body)
}

// oauth2Fault says what an error of the server means. Its own text is not
// shown: of its code only what RFC 6749 has.
func oauth2Fault(a *answer) *Fault {
	var e struct {
		Code string `json:"error"`
	}
	_ = json.Unmarshal(a.body, &e) // without a code the status is left
	switch e.Code {
	case "invalid_client", "unauthorized_client":
		return &Fault{OAuth2, Denied, "the server does not accept this client (" + e.Code + ")", "check client id, secret and auth"}
	case "invalid_scope":
		return &Fault{OAuth2, Denied, "the server does not grant these scopes (" + e.Code + ")", "ask for scopes that the client may have"}
	case "invalid_request", "unsupported_grant_type", "invalid_grant", "unsupported_token_type":
		return &Fault{OAuth2, Invalid, "the server does not take the request (" + e.Code + ")", "check the address, and that the client may use client credentials"}
	}
	return statusFault(OAuth2, a.status)
}

// token is the part of the server's answer that is looked at.
type token struct {
	Token   json.RawMessage `json:"access_token"`
	Type    string          `json:"token_type"`
	Expires json.RawMessage `json:"expires_in"` // a number; some servers quote it
	Scope   *string         `json:"scope"`
}

// grant makes a grant of an answer. Where the token is not what was asked for
// it is revoked.
func (c *oauth2Client) grant(ctx context.Context, r Request, body []byte) (*Grant, error) {
	var t token
	if json.Unmarshal(body, &t) != nil || !strings.EqualFold(t.Type, "bearer") {
		return nil, &Fault{OAuth2, Invalid, "the server does not answer with a bearer token", "check the address"}
	}
	defer func() { clear(t.Token) }()
	s, err := secretOf(OAuth2, t.Token)
	if err != nil {
		return nil, err
	}
	g := single(s)
	if c.RevokeURL != "" {
		g.Revoke = func(ctx context.Context) error { return c.revoke(ctx, s) }
	}
	if g.TTL, err = lifetime(t.Expires); err == nil {
		err = judgeScopes(r.Scopes, t.Scope)
	}
	if err == nil && !visible(s) {
		err = &Fault{OAuth2, Invalid, "the token is not printable text", "check the address"}
	}
	if err != nil {
		undo(ctx, g)
		return nil, err
	}
	return g, nil
}

// lifetime reads expires_in, which may be left out.
func lifetime(raw json.RawMessage) (time.Duration, error) {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" {
		return 0, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || seconds != seconds || seconds > maxTTL.Seconds():
		return 0, &Fault{OAuth2, Invalid, "the server does not say how long the token lives", "see its expires_in"}
	case seconds < 1:
		return 0, &Fault{OAuth2, Invalid, "the token has expired already", "see the server's expires_in"}
	}
	return time.Duration(seconds) * time.Second, nil
}

// judgeScopes holds the token to what was asked for. A server that says
// nothing has granted that, by RFC 6749, section 5.1.
func judgeScopes(asked []string, granted *string) error {
	if len(asked) == 0 || granted == nil {
		return nil
	}
	got := strings.Fields(*granted)
	for _, scope := range asked {
		if !slices.Contains(got, scope) {
			return &Fault{OAuth2, Denied, "the server grants fewer scopes than asked for", "ask for scopes that the client may have"}
		}
	}
	for _, scope := range got {
		if !slices.Contains(asked, scope) {
			return &Fault{OAuth2, Denied, "the server grants more scopes than asked for", "narrow the client at the server, or list the scopes that it grants"}
		}
	}
	return nil
}

// revoke ends a token: RFC 7009.
func (c *oauth2Client) revoke(ctx context.Context, s secret.Secret) error {
	a, err := c.post(ctx, "", c.RevokeURL, url.Values{"token": {whole(s)}, "token_type_hint": {"access_token"}})
	if err != nil {
		return err
	}
	defer clear(a.body)
	if a.status != http.StatusOK {
		return oauth2Fault(a)
	}
	return nil
}
