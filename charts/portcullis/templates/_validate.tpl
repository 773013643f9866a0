{{/* What the schema cannot say: rules between values. Every message names the key, the value and what is
allowed. */}}
{{- define "portcullis.validate" -}}
{{- $v := .Values -}}
{{- $tls := $v.admission.tls -}}
{{- if and $tls.secretName (not $tls.caBundle) -}}
{{- fail (printf "admission.tls.caBundle is empty, and admission.tls.secretName is %q: with a certificate of your own the API server has to be told who vouches for it; allowed: the certificates of its authority, PEM" $tls.secretName) -}}
{{- end -}}
{{- if and $tls.caBundle (not $tls.secretName) -}}
{{- fail "admission.tls.caBundle is given, and admission.tls.secretName is empty: the controller makes the certificate and writes caBundle itself; allowed: both, or neither" -}}
{{- end -}}
{{- if and $v.watchNamespaces $v.admission.enabled (not $tls.secretName) -}}
{{- fail (printf "admission.enabled is true, and watchNamespaces is %q: with Roles alone the controller cannot write its caBundle; allowed: admission.enabled=false, or a certificate of yours in admission.tls" (join "," $v.watchNamespaces)) -}}
{{- end -}}
{{- if and $v.nodeAddresses (not $v.watchNamespaces) -}}
{{- fail "nodeAddresses is given, and watchNamespaces is empty: Nodes are read from the cluster then; allowed: nodeAddresses with watchNamespaces" -}}
{{- end -}}
{{- if and $v.watchNamespaces (eq $v.identity.mode "issuer") -}}
{{- fail (printf "identity.mode is \"issuer\", and watchNamespaces is %q: the issuer reviews tokens, which is a right on the whole cluster; allowed: \"external\"" (join "," $v.watchNamespaces)) -}}
{{- end -}}
{{- if eq $v.identity.mode "external" -}}
{{- range $key := list "address" "serverName" -}}
{{- if not (index $v.identity.external $key) -}}
{{- fail (printf "identity.external.%s is empty, and identity.mode is \"external\"; allowed: the %s of a service that speaks Certify" $key (ternary "host:port" "identity" (eq $key "address"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
