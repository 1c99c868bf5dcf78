package auth

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is text that does not show itself: fmt, slog, encoding/json and whatever else marshals text print it as
// [redacted], and a struct that holds it in an unexported field prints an address. [Secret.Reveal] is the one way to read
// it. The zero value is empty.
type Secret struct{ text *string }

// NewSecret returns s as a Secret.
func NewSecret(s string) Secret { return Secret{&s} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether there is no text.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// String returns [redacted].
func (Secret) String() string { return redacted }

// Format implements fmt.Formatter: every verb prints [redacted].
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText implements encoding.TextUnmarshaler, for configuration files.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = NewSecret(string(b))
	return nil
}
