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
{{- if not $v.watchNamespaces -}}
{{- $role := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "portcullis-policy-controller" -}}
{{- $owner := dig "metadata" "annotations" (dict) ($role | default dict) -}}
{{- $name := get $owner "meta.helm.sh/release-name" -}}
{{- $namespace := get $owner "meta.helm.sh/release-namespace" -}}
{{- /* What is left over of a release that is gone can be taken over. */ -}}
{{- if and $name (or (ne $name .Release.Name) (ne $namespace .Release.Namespace)) (lookup "apps/v1" "Deployment" $namespace "policy-controller") -}}
{{- fail (printf "watchNamespaces is empty, and release %s of namespace %s watches the whole cluster: its roles and webhooks are there once; allowed: a further release with watchNamespaces={NAMESPACE}, injector.enabled=false, admission.enabled=false, crds.policy=false, crds.workload=false and crds.portcullis=false" $name $namespace) -}}
{{- end -}}
{{- end -}}
{{- if and $v.nodeAddresses (not $v.watchNamespaces) -}}
{{- fail "nodeAddresses is given, and watchNamespaces is empty: Nodes are read from the cluster then; allowed: nodeAddresses with watchNamespaces" -}}
{{- end -}}
{{- if and $v.watchNamespaces $v.injector.enabled -}}
{{- fail (printf "injector.enabled is true, and watchNamespaces is %q: with Roles alone the controller can neither label namespaces nor write its caBundle; allowed: injector.enabled=false" (join "," $v.watchNamespaces)) -}}
{{- end -}}
{{- if and $v.injector.enabled (not $v.admission.enabled) -}}
{{- fail "injector.enabled is true, and admission.enabled is false: both are served by one port with one certificate; allowed: admission.enabled=true, or injector.enabled=false" -}}
{{- end -}}
{{- if $v.outbound.enabled -}}
{{- if not $v.injector.enabled -}}
{{- fail "outbound.enabled is true, and injector.enabled is false: the injector gives pods the outbound half; allowed: injector.enabled=true, or outbound.enabled=null" -}}
{{- end -}}
{{- if eq $v.injector.sidecar "container" -}}
{{- fail "outbound.enabled is true, and injector.sidecar is \"container\": the outbound half needs a native sidecar; allowed: injector.sidecar=auto or native, or outbound.enabled=null" -}}
{{- end -}}
{{- end -}}
{{- if and (kindIs "bool" $v.outbound.enabled) (hasKey $v.injector.defaults "outbound") -}}
{{- fail (printf "outbound.enabled is %t, and injector.defaults.outbound is %q: both say the same thing; allowed: one of them" $v.outbound.enabled (index $v.injector.defaults "outbound")) -}}
{{- end -}}
{{- if and $v.injector.enabled $v.outbound.externalWorkloadNamespaces (not $v.outbound.networks) -}}
{{- fail "outbound.externalWorkloadNamespaces is given, and outbound.networks is empty: machines count outside policy.clusterNetworks alone, and sidecars look up these alone; allowed: outbound.networks with the networks of both" -}}
{{- end -}}
{{- if $v.besideLinkerd.enabled -}}
{{- if ne $v.identity.mode "external" -}}
{{- fail (printf "identity.mode is %q, and besideLinkerd.enabled is true: Linkerd's proxies know Linkerd's authority alone; allowed: \"external\"" $v.identity.mode) -}}
{{- end -}}
{{- if $v.injector.enabled -}}
{{- fail "injector.enabled is true, and besideLinkerd.enabled is true: a pod would get two sidecars; allowed: injector.enabled=false" -}}
{{- end -}}
{{- range $group := list "policy" "workload" -}}
{{- if index $v.crds $group -}}
{{- fail (printf "crds.%s is true, and besideLinkerd.enabled is true: Linkerd's charts install these definitions; allowed: crds.%s=false" $group $group) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
