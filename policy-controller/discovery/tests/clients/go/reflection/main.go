// Calls a server as grpcurl does: from nothing but what its reflection says.
//
// Arguments: address, v1 or v1alpha, the full name of a unary method, its request as JSON. Writes the
// services and the response.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

type report struct {
	Services []string        `json:"services"`
	Response json.RawMessage `json:"response"`
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

// asker asks one question after another on one stream.
type asker struct{ stream grpc.ClientStream }

func (a asker) ask(request *v1.ServerReflectionRequest) *v1.ServerReflectionResponse {
	must(0, a.stream.SendMsg(request))
	response := new(v1.ServerReflectionResponse)
	must(0, a.stream.RecvMsg(response))
	if refused := response.GetErrorResponse(); refused != nil {
		must(0, fmt.Errorf("%v: %v", request, refused))
	}
	return response
}

// files adds the files of an answer and everything that they import.
func (a asker) files(request *v1.ServerReflectionRequest, found map[string]*descriptorpb.FileDescriptorProto) {
	for _, encoded := range a.ask(request).GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := new(descriptorpb.FileDescriptorProto)
		must(0, proto.Unmarshal(encoded, file))
		found[file.GetName()] = file
		for _, name := range file.GetDependency() {
			if found[name] == nil {
				a.files(&v1.ServerReflectionRequest{
					MessageRequest: &v1.ServerReflectionRequest_FileByFilename{FileByFilename: name},
				}, found)
			}
		}
	}
}

func main() {
	address, version, method, body := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn := must(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	name := "/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo"
	asker := asker{must(conn.NewStream(ctx, desc, name))}
	var result report
	listed := asker.ask(&v1.ServerReflectionRequest{
		MessageRequest: &v1.ServerReflectionRequest_ListServices{},
	})
	found := map[string]*descriptorpb.FileDescriptorProto{}
	for _, service := range listed.GetListServicesResponse().GetService() {
		result.Services = append(result.Services, service.GetName())
		asker.files(&v1.ServerReflectionRequest{
			MessageRequest: &v1.ServerReflectionRequest_FileContainingSymbol{
				FileContainingSymbol: service.GetName(),
			},
		}, found)
	}
	set := new(descriptorpb.FileDescriptorSet)
	for _, file := range found {
		set.File = append(set.File, file)
	}
	files := must(protodesc.NewFiles(set))
	for _, service := range result.Services {
		must(files.FindDescriptorByName(protoreflect.FullName(service)))
	}
	of := must(files.FindDescriptorByName(protoreflect.FullName(method))).(protoreflect.MethodDescriptor)
	request, response := dynamicpb.NewMessage(of.Input()), dynamicpb.NewMessage(of.Output())
	must(0, protojson.Unmarshal([]byte(body), request))
	at := strings.LastIndex(method, ".")
	must(0, conn.Invoke(ctx, "/"+method[:at]+"/"+method[at+1:], request, response))
	result.Response = must(protojson.Marshal(response))
	fmt.Println(string(must(json.Marshal(result))))
}
