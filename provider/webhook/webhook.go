package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"fairlead.dev/fairlead/provider"
)

// maxBody is how long a request or an answer may be.
const maxBody = 8 << 20

// Kinds of a failure.
const (
	kindNotFound = "NotFound"
	kindRefused  = "Refused"
	kindFailed   = "Failed"
)

type request struct {
	ID      string            `json:"id,omitempty"`
	Owner   string            `json:"owner"`
	Spec    json.RawMessage   `json:"spec,omitempty"`
	Wanted  *provider.Wanted  `json:"wanted,omitempty"`
	Members []provider.Member `json:"members,omitempty"`
}

type answer struct {
	State *provider.State `json:"state,omitempty"`
	Error *failure        `json:"error,omitempty"`
}

type failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Options of a Client.
type Options struct {
	// URL below which the calls are, such as https://appliance.example/fairlead.
	URL string
	// HTTP makes the calls, with its certificates. Redirects aren't followed. Default: http.DefaultClient's transport.
	HTTP *http.Client
	// Token is asked for before each call, and sent as a bearer token; nil: none is.
	Token func() (string, error)
}

// Client is a provider whose calls somebody answers over HTTP. It is safe for concurrent use.
type Client struct {
	base  *url.URL
	http  http.Client
	token func() (string, error)
}

var _ provider.Provider = (*Client)(nil)

// New returns one; an error says what is wrong with the URL.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("webhook.Options: URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("webhook.Options: URL: %q has no scheme http or https, or no host: write it as https://appliance.example/fairlead", o.URL)
	}
	c := &Client{base: u, token: o.Token}
	if o.HTTP != nil {
		c.http = *o.HTTP
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Describe asks for a load balancer's state.
func (c *Client) Describe(ctx context.Context, ref provider.Ref) (provider.State, error) {
	return c.stated(ctx, "describe", ref, request{})
}

// Ensure asks for it to be as wanted.
func (c *Client) Ensure(ctx context.Context, w provider.Wanted) (provider.State, error) {
	return c.stated(ctx, "ensure", w.Ref, request{Wanted: &w})
}

// SetMembers tells the members.
func (c *Client) SetMembers(ctx context.Context, ref provider.Ref, members []provider.Member) error {
	_, err := c.call(ctx, "members", ref, request{Members: members})
	return err
}

// Delete asks for its deletion.
func (c *Client) Delete(ctx context.Context, ref provider.Ref) error {
	_, err := c.call(ctx, "delete", ref, request{})
	return err
}

// stated is a call whose answer has a state.
func (c *Client) stated(ctx context.Context, name string, ref provider.Ref, r request) (provider.State, error) {
	a, err := c.call(ctx, name, ref, r)
	if err != nil {
		return provider.State{}, err
	}
	if a.State == nil {
		return provider.State{}, fmt.Errorf("webhook %s: the answer has no state", name)
	}
	return *a.State, nil
}

func (c *Client) call(ctx context.Context, name string, ref provider.Ref, r request) (answer, error) {
	a, err := c.exchange(ctx, name, ref, r)
	if err != nil {
		return answer{}, fmt.Errorf("webhook %s: %w", name, err)
	}
	return a, nil
}

func (c *Client) exchange(ctx context.Context, name string, ref provider.Ref, r request) (answer, error) {
	r.ID, r.Owner = ref.ID, ref.Owner
	var err error
	if r.Spec, err = specOf(ref.Object); err != nil {
		return answer{}, err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return answer{}, fmt.Errorf("encoding the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath(name).String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != nil {
		token, err := c.token()
		if err != nil {
			return answer{}, fmt.Errorf("getting the token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return answer{}, fmt.Errorf("reading the answer: %w", err)
	}
	if len(text) > maxBody {
		return answer{}, fmt.Errorf("the answer is longer than %d bytes", maxBody)
	}
	return read(resp, text)
}

// read is what an answer means.
func read(resp *http.Response, text []byte) (answer, error) {
	var a answer
	err := json.Unmarshal(text, &a)
	switch {
	case resp.StatusCode != http.StatusOK && (err != nil || a.Error == nil):
		return answer{}, fmt.Errorf("status %s, and not as a provider answers", resp.Status)
	case err != nil:
		return answer{}, fmt.Errorf("reading the answer: %w", err)
	case resp.StatusCode == http.StatusOK && a.Error == nil:
		return a, nil
	case resp.StatusCode == http.StatusOK:
		return answer{}, fmt.Errorf("status %s with an error: %s", resp.Status, a.Error.Message)
	case a.Error.Kind == kindNotFound:
		return answer{}, fmt.Errorf("%s: %w", a.Error.Message, provider.ErrNotFound)
	case a.Error.Kind == kindRefused:
		return answer{}, provider.Terminal("%s", a.Error.Message)
	}
	return answer{}, errors.New(a.Error.Message)
}

// specOf is an object's spec as JSON.
func specOf(o provider.Object) (json.RawMessage, error) {
	if o == nil {
		return nil, nil
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	var parts struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(text, &parts); err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	return parts.Spec, nil
}
