package tap

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/parley-a2a/parley/a2a"
)

// TestRedact has secrets pass in every place that there is for one, and looks for them in all that is kept. They have one
// word in common.
func TestRedact(t *testing.T) {
	const canary = "CANARY"
	n := 0
	secret := func() string { n++; return fmt.Sprintf("%s-%d-Aa.Bb_Cc", canary, n) }
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"id":"p","taskId":"t","url":"https://user:%s@hook.example/?a=1&access_token=%s","token":%q,`+
		`"authentication":{"scheme":"Bearer","credentials":%q},"tok\u0065n":"%s","x":{"clientSecret":["%s",["%s"]],"api_key" : 12%d}, "password":"%s`,
		secret(), secret(), secret(), secret(), secret(), secret(), secret(), 99, secret()+`\"`+secret())
	cfg := fake(t, func(w http.ResponseWriter, r *http.Request) {
		echo := r.Header.Get("Authorization") + " " + r.Header.Get("X-Odd-Key")
		w.Header().Set("Set-Cookie", "s="+secret())
		w.Header().Set("X-Auth-Token", secret())
		w.Header().Set("Location", "/login?id_token="+secret())
		if r.URL.Path == "/rest/message:stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "data: {\"echo\":%q}\n\ndata: %s\n\n", echo, answer)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"echo":%q,`+answer[1:], echo)
	})
	cfg.Card = []byte(strings.Replace(string(cfg.Card), `"skills"`, `"securitySchemes":{"k":{"apiKeySecurityScheme":{"name":"X-Odd-Key","location":"header"}},`+
		`"q":{"apiKeySecurityScheme":{"name":"oddq","location":"query"}}},"skills"`, 1))
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "tap.jsonl")
	tap := startTapOn(t, cfg, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.Recording.File, c.Recording.Redact = path, []string{"X-Mine", "mine"}
	})
	headers := []string{
		"Authorization", "Bearer " + secret(), "Cookie", "s=" + secret(), "X-Odd-Key", secret(), "X-Mine", secret(), "Proxy-Authorization", secret(),
		"X-A2A-Notification-Token", secret(), "Referer", "https://a:" + secret() + "@b.example/?token=" + secret(),
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":` + strings.SplitN(answer, `"result":`, 2)[1]
	query := "?oddq=" + secret() + "&api_key=" + secret() + "&X-Amz-Signature=" + secret() + "&pageToken=kept-1"
	post(t, tap.url+"/rpc"+query, body+`"}}`, headers...)
	post(t, tap.url+"/rpc"+query, body, headers...) // broken
	post(t, tap.url+"/rest/message:stream"+query, `{"mine":"`+secret()+`","pageToken":"kept-2","metadata":{"refresh-token":"`+secret()+`"}}`, headers...)
	post(t, tap.url+"/token", "grant_type=client_credentials&client_secret="+secret()+"&refresh_token="+secret(), append(headers, "Content-Type", "application/x-www-form-urlencoded")...)
	config := &pb.TaskPushNotificationConfig{TaskId: "t", Url: "https://hook.example/?token=" + secret(), Token: secret(), Authentication: &pb.AuthenticationInfo{Scheme: "Bearer", Credentials: secret()}}
	meta, err := structpb.NewStruct(map[string]any{"apiKey": secret(), "list": []any{map[string]any{"password": secret()}}, "plain": "kept-3"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		op string
		proto.Message
	}{
		{"CreateTaskPushNotificationConfig", config},
		{"SendMessage", &pb.SendMessageRequest{Metadata: meta, Configuration: &pb.SendMessageConfiguration{TaskPushNotificationConfig: config}}},
	} {
		b, err := proto.Marshal(m.Message)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{b, append(b, 0xff, 0xff)} {
			post(t, tap.url+"/lf.a2a.v1.A2AService/"+m.op, string(appendMessage(nil, b)), append(headers, "Content-Type", "application/grpc")...)
		}
	}
	tap.until(t, func(x *Exchange) bool { return x.ID == 8 && x.Done })
	if err := tap.rec.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var har bytes.Buffer
	if err := WriteHAR(&har, tap.rec.Exchanges(0, 0)); err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"the file": string(file), "the log": log.String(), "the archive": har.String(), "memory": string(marshaled(t, tap.rec.Exchanges(0, 0)))} {
		for rest := text; ; {
			at := strings.Index(rest, canary)
			if at < 0 {
				break
			}
			t.Errorf("in %s: %.160s", where, rest[max(0, at-80):])
			rest = rest[at+len(canary):]
		}
		if where != "the log" {
			for _, kept := range []string{"kept-1", "kept-2", "kept-3", "Bearer [redacted]", "hook.example"} {
				if !strings.Contains(text, kept) {
					t.Errorf("%s has lost %q", where, kept)
				}
			}
		}
	}
}

func marshaled(t *testing.T, v any) []byte {
	t.Helper()
	b, err := marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRedactKeeps has what is no secret stay as it is, to the byte.
func TestRedactKeeps(t *testing.T) {
	r := newRedactor(new(a2a.AgentCard), nil)
	for _, s := range []string{
		`{"nextPageToken":"x","pageToken":"y","tokens":3,"maxTokens":"4","note":"token: a \"b\" {","k":[1,{"a":-1e9}]}`,
		"  [1, 2,\t{}]\n", `{"securitySchemes":{"apiKey":{"apiKeySecurityScheme":{"name":"X","location":"header"}}},"security":[{"apiKey":[]}]}`,
		`{"half":"`, `"`, `{"a":"\`, "", "\xff\x00", `{"signatures":[{"protected":"p","signature":"s"}]}`, `{"url":"https://example.com/a?b=c&pageToken=d#e"}`,
	} {
		if got := r.body([]byte(s), "", []string{"short"}); string(got) != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	var h http.Header
	if got, secrets := r.header(h); got != nil || secrets != nil {
		t.Error(got, secrets)
	}
	if _, err := io.WriteString(io.Discard, r.address("/rpc?a=b")); err != nil || r.address("/rpc?a=b") != "/rpc?a=b" {
		t.Error(r.address("/rpc?a=b"))
	}
}
