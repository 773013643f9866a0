// Package raw has messages without protobuf.
package raw

// Codec takes bytes as they are.
type Codec struct{}

// Name is the part of the content type behind `application/grpc+`.
func (Codec) Name() string { return "proto" }

// Marshal returns the bytes of a message.
func (Codec) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

// Unmarshal keeps the bytes of a message.
func (Codec) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}
