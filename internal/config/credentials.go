package config

// Credentials is what the sources of credentials need to know. What a call may
// use is its envelope's business.
type Credentials struct {
	// Roots is a PEM file of certificate authorities that are trusted beside
	// this host's; "" is none.
	Roots  string            `json:"roots"`
	Vault  Vault             `json:"vault"`
	OAuth2 map[string]OAuth2 `json:"oauth2"` // clients, by the name that a source says
}

// Vault is one Vault or OpenBao.
type Vault struct {
	Address   string `json:"address"`   // https://vault.example.com:8200; "" is none
	Namespace string `json:"namespace"` // "" is none
	Token     string `json:"token"`     // file:PATH, command:WORDS or env:NAME
}

// OAuth2 is one client of a server that hands out tokens.
type OAuth2 struct {
	TokenURL  string `json:"tokenURL"`
	RevokeURL string `json:"revokeURL,omitempty"` // "" where tokens cannot be revoked
	ClientID  string `json:"clientID"`
	Secret    string `json:"secret"`             // file:PATH, command:WORDS or env:NAME
	Auth      string `json:"auth,omitempty"`     // basic (also ""), or body
	Audience  string `json:"audience,omitempty"` // a parameter that some servers want
}

// Locate gives an error about a field of the configuration, a *FieldError of
// package envelope, the place of the field in its file.
func (c *Config) Locate(err error) error { return c.locate(err) }
