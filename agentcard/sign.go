package agentcard

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-a2a/parley/a2a"
)

// Sign puts a signature of each key on a card, in the keys' order, in place of those it has (specification 8.4.2). The
// card may not be changed afterwards. Two keys are for a rotation: callers that know either of them can verify the card.
// After an error the card is as it was.
func Sign(card *a2a.AgentCard, keys ...*Key) error {
	if len(keys) == 0 {
		return errors.New("agentcard: no key to sign with")
	}
	form, err := Canonical(card)
	if err != nil {
		return err
	}
	signed := make([]*a2a.AgentCardSignature, 0, len(keys))
	ids := map[string]bool{}
	for _, k := range keys {
		s, err := k.sign(form)
		if err != nil {
			return err
		}
		if ids[k.ID] {
			return fmt.Errorf("agentcard: two keys have the ID %q", clip(k.ID, 64))
		}
		ids[k.ID] = true
		signed = append(signed, s)
	}
	card.Signatures = signed
	return nil
}

func (k *Key) sign(form []byte) (*a2a.AgentCardSignature, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	private := jose.JSONWebKey{Key: k.key, KeyID: k.ID}
	if private.IsPublic() {
		return nil, fmt.Errorf("agentcard: key %q is only the public half: sign with the private key", clip(k.ID, 64))
	}
	opts := (&jose.SignerOptions{}).WithType("JOSE")
	if k.SetURL != "" {
		if u, err := url.Parse(k.SetURL); err != nil || !secure(u) {
			return nil, fmt.Errorf("agentcard: the key set's URL %q is not an https URL", clip(k.SetURL, 128))
		}
		opts = opts.WithHeader("jku", k.SetURL)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.Algorithm), Key: private}, opts)
	if err != nil {
		return nil, fmt.Errorf("agentcard: key %q: %w", clip(k.ID, 64), err)
	}
	jws, err := signer.Sign(form)
	if err != nil {
		return nil, fmt.Errorf("agentcard: sign with key %q: %w", clip(k.ID, 64), err)
	}
	compact, err := jws.DetachedCompactSerialize()
	if err != nil {
		return nil, fmt.Errorf("agentcard: sign with key %q: %w", clip(k.ID, 64), err)
	}
	protected, signature, _ := strings.Cut(compact, "..")
	return &a2a.AgentCardSignature{Protected: protected, Signature: signature}, nil
}

// decodeBase64 takes base64url as RFC 7515 has it: one form for each value.
func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") { // which the decoder would pass over
		return nil, errors.New("line breaks in base64url")
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}
