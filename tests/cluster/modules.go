//go:build never

package main

// Modules whose files tests read without importing their code: Gateway API's CRDs.
import _ "sigs.k8s.io/gateway-api/apis/v1"
