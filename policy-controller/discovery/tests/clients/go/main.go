// Opens many streams at once, sends on one of them, and says how many go on and how many messages that one
// got.
//
// Argument: address. Standard input: {"method", "streams", "first", "more", "answers"}, messages in
// hexadecimal digits; after the last of "more", "answers" messages of the first stream are waited for.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// raw passes messages as bytes.
type raw struct{}

func (raw) Name() string                    { return "proto" }
func (raw) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (raw) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }

type plan struct {
	Method  string   `json:"method"`
	Streams int      `json:"streams"`
	First   []string `json:"first"`
	More    []string `json:"more"`
	Answers int      `json:"answers"`
}

type report struct {
	Ready   int    `json:"ready"`
	Ended   int    `json:"ended"`
	Error   string `json:"error"`
	Answers int    `json:"answers"`
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func send(stream grpc.ClientStream, messages []string) error {
	for _, message := range messages {
		bytes := must(hex.DecodeString(message))
		if err := stream.SendMsg(&bytes); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	var plan plan
	must(0, json.NewDecoder(os.Stdin).Decode(&plan))
	conn := must(grpc.NewClient(os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}))))
	var lock sync.Mutex
	var begun sync.WaitGroup
	var result report
	count := func(number *int, err error) {
		lock.Lock()
		defer lock.Unlock()
		*number++
		if err != nil {
			result.Error = err.Error()
		}
	}
	open := make([]grpc.ClientStream, plan.Streams)
	for at := range plan.Streams {
		begun.Add(1)
		go func() {
			desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
			stream, err := conn.NewStream(context.Background(), desc, plan.Method)
			if err == nil {
				open[at] = stream
				err = send(stream, plan.First)
			}
			for isFirst := true; ; isFirst = false {
				var message []byte
				if err == nil {
					err = stream.RecvMsg(&message)
				}
				if err == nil && isFirst {
					count(&result.Ready, nil)
				}
				if err == nil && at == 0 {
					count(&result.Answers, nil)
				}
				if isFirst {
					begun.Done()
				}
				if err != nil {
					count(&result.Ended, err)
					return
				}
			}
		}()
	}
	begun.Wait()
	if open[0] != nil {
		// Its reader says why it ended.
		_ = send(open[0], plan.More)
	}
	answered := func() bool {
		lock.Lock()
		defer lock.Unlock()
		return result.Answers >= plan.Answers
	}
	for range 200 {
		if answered() {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Second)
	lock.Lock()
	fmt.Println(string(must(json.Marshal(result))))
	os.Exit(0)
}
