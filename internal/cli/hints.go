package cli

import (
	"bytes"
	"cmp"
	"errors"
	"strings"

	"github.com/parley-a2a/parley/a2a"
	"github.com/parley-a2a/parley/client"
)

// hintOf says, for each code of a failure that is the tool's own, what to do where nothing better is known. What has no
// better code, errInternal, has no advice that fits all of it: it says in its message what is the matter.
var hintOf = map[string]string{ //nolint:gosec // words about credentials
	errUsage:              "see parley --help",
	errCardNotFound:       "check --agent-card: a host, the URL of a card, or a file",
	errCardInvalid:        "parley card get --validate says what is wrong with it; whoever runs the agent can mend it",
	errUnreachable:        "check the address, and that the agent is running",
	errCredentialsMissing: "give a credential, by $A2ACLI_BEARER or $A2ACLI_API_KEY; parley card get shows which one the agent takes",
	errAuthFailed:         "check the credential: until when it is good, and what it is for",
	errTimeout:            "raise --timeout",
}

// hintOfAgent is the same for the errors that an agent answers with. Those of credentials have codes of the tool.
var hintOfAgent = map[a2a.ErrorCode]string{
	a2a.ErrTaskNotFound:                   "parley task list shows the tasks that the agent knows",
	a2a.ErrTaskNotCancelable:              "parley task get shows how the task ended",
	a2a.ErrPushNotificationNotSupported:   "follow the task with parley task subscribe, or wait for it with parley task get --wait",
	a2a.ErrUnsupportedOperation:           "parley card get shows what the agent can do",
	a2a.ErrContentTypeNotSupported:        "parley card get shows the types that the agent takes; --media-type says that of a part",
	a2a.ErrInvalidAgentResponse:           "--debug shows what the agent answers; parley conformance judges it",
	a2a.ErrExtendedAgentCardNotConfigured: "parley card get without --extended shows the card that everybody sees",
	a2a.ErrExtensionSupportRequired:       "if you do what the extension asks for, declare it: --svc-param 'A2A-Extensions: URI'",
	a2a.ErrVersionNotSupported:            "parley card get shows the versions that the agent speaks; parley speaks " + a2a.Version,
	a2a.ErrTaskGenerationMismatch:         "parley task get shows the task as it is now",
	a2a.ErrParse:                          "--debug shows what was sent",
	a2a.ErrInvalidRequest:                 "--debug shows what was sent",
	a2a.ErrMethodNotFound:                 "parley card get shows the agent's addresses; --transport chooses another one",
	a2a.ErrInvalidParams:                  "--debug shows what was sent",
	a2a.ErrInternal:                       "the fault is the agent's: its log may say more; --debug shows the exchange",
	a2a.ErrMethodNotAllowed:               "parley card get shows the agent's addresses; --transport chooses another one",
	a2a.ErrRequestTimeout:                 "try again, or send less at once",
	a2a.ErrTooLarge:                       "send less at once; --file takes the http(s) URL of a file, too, which sends the URL alone",
	a2a.ErrUnsupportedMediaType:           "parley card get shows the agent's addresses; --transport chooses another one",
	a2a.ErrResourceExhausted:              "try again a little later",
	a2a.ErrUnavailable:                    "try again a little later",
	a2a.ErrCanceled:                       "try again",
}

// undeclared is the advice where an agent wants a credential, and its card does not say which.
const undeclared = "where the card has only left it out, save it to a file, add the scheme, and name the file with --agent-card"

// advice returns what to do: what the failure says itself, or what its code does. It is empty for errInternal alone.
func (f *failure) advice() string { return cmp.Or(f.hint, hintOfAgent[f.a2aCode], hintOf[f.code]) }

// also adds to the advice.
func (f *failure) also(hint string) *failure {
	f.hint = strings.TrimPrefix(f.advice()+"; "+hint, "; ")
	return f
}

// unreachableHint returns the advice for a certificate that does not count. What an error says of the network is little,
// so that it gives no inner address away; its cause has the rest, of gRPC only as text.
func unreachableHint(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*a2a.Error](err); ok && e.Cause() != nil {
		text += e.Cause().Error()
	}
	switch {
	case !strings.Contains(text, "x509: "):
		return ""
	case strings.Contains(text, "certificate is valid for"), strings.Contains(text, "has expired"):
		return "name the agent as its certificate does, or have the certificate renewed; --insecure does not verify it, for development"
	}
	return "name the authority that signed the agent's certificate with --ca-cert FILE; --insecure does not verify it, for development"
}

// invalidCardHint returns the advice for an address that has a web page in place of a card: nothing is to be mended there.
func invalidCardHint(err error) string {
	read, ok := errors.AsType[*client.InvalidCardError](err)
	if ok && bytes.HasPrefix(bytes.TrimSpace(read.Raw), []byte("<")) {
		return hintOf[errCardNotFound]
	}
	return ""
}
