package cli

import (
	"context"
	"testing"

	"github.com/parley-a2a/parley/a2a"
)

// TestOperatorIsNotAsked: the console's operator has no credential that could be asked for while a stream lasts; whoever else
// has none is.
func TestOperatorIsNotAsked(t *testing.T) {
	no := a2a.Errorf(a2a.ErrUnauthenticated, "no")
	check := exceptOperator(func(context.Context) error { return no })
	if err := check(a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Caller: operator})); err != nil {
		t.Errorf("the operator: %v", err)
	}
	for _, c := range []a2a.Caller{{}, {Issuer: "console", Subject: "alice"}, {Issuer: "api-key", Subject: "operator"}} {
		if err := check(a2a.WithCallInfo(t.Context(), &a2a.CallInfo{Caller: c})); err == nil {
			t.Errorf("%+v is not asked", c)
		}
	}
}
