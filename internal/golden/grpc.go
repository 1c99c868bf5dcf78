package golden

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/code"
	_ "google.golang.org/genproto/googleapis/rpc/errdetails" // the details of errors, by name
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// grpcService is the name of the service in the specification's proto.
const grpcService = "lf.a2a.v1.A2AService"

type grpcConn struct{ conn *grpc.ClientConn }

func newGRPC(addr string) (Conn, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return grpcConn{conn}, nil
}

func (c grpcConn) Close() { _ = c.conn.Close() }

func (c grpcConn) Do(ctx context.Context, r Request) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		md := metadata.MD{}
		for name, values := range r.header() {
			md.Append(name, values...)
		}
		req, res, err := messages(r)
		if err != nil {
			yield(nil, err)
			return
		}
		ctx = metadata.NewOutgoingContext(ctx, md)
		s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/"+grpcService+"/"+r.Op)
		if err == nil {
			err = errors.Join(s.SendMsg(req), s.CloseSend())
		}
		if err != nil && !errors.Is(err, io.EOF) {
			yield(nil, fromStatus(err, nil, false))
			return
		}
		for n := 0; ; n++ {
			proto.Reset(res)
			err := s.RecvMsg(res)
			if errors.Is(err, io.EOF) {
				if n != 1 && !isStream(r.Op) {
					yield(nil, fmt.Errorf("%d answers to %s", n, r.Op))
				}
				return
			}
			if err != nil {
				yield(nil, fromStatus(err, s.Trailer(), n > 0))
				return
			}
			if !yield(render(res)) {
				return
			}
		}
	}
}

// messages returns an operation's request, filled in, and an empty answer.
func messages(r Request) (req, res proto.Message, err error) {
	m := pb.File_a2av1_proto.Services().ByName("A2AService").Methods().ByName(protoreflect.Name(r.Op))
	if m == nil {
		return nil, nil, fmt.Errorf("golden: no operation %q", r.Op)
	}
	if req, err = newMessage(m.Input()); err == nil {
		res, err = newMessage(m.Output())
	}
	if err == nil {
		err = protojson.Unmarshal([]byte(r.JSON), req)
	}
	return req, res, err
}

func newMessage(d protoreflect.MessageDescriptor) (proto.Message, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil, err
	}
	return t.New().Interface(), nil
}

// render returns a message as JSON. What the JSON bindings always have and protobuf never sends if it is empty
// is added.
func render(m proto.Message) (json.RawMessage, error) {
	list, ok := m.(*pb.ListTasksResponse)
	if !ok {
		return protojson.Marshal(m)
	}
	tasks := make([]string, len(list.GetTasks()))
	for i, t := range list.GetTasks() {
		b, err := protojson.Marshal(t)
		if err != nil {
			return nil, err
		}
		tasks[i] = string(b)
	}
	return fmt.Appendf(nil, `{"tasks":[%s],"nextPageToken":%q,"pageSize":%d,"totalSize":%d}`,
		strings.Join(tasks, ","), list.GetNextPageToken(), list.GetPageSize(), list.GetTotalSize()), nil
}

func fromStatus(err error, trailer metadata.MD, inStream bool) error {
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	var details []json.RawMessage
	for _, d := range st.Proto().GetDetails() {
		b, err := protojson.Marshal(d)
		if err != nil {
			return err
		}
		details = append(details, b)
	}
	e := newError(st.Message(), details)
	e.GRPC = code.Code(st.Code()).String()
	e.Challenge = trailer.Get("www-authenticate")
	e.InStream = inStream
	return e
}
