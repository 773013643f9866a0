{{/* Lines of a map of a user's, but for keys that are written already, because a key is written once. (dict "map" … "written" a list) */}}
{{- define "portcullis.lines" -}}
{{- $map := .map | default dict -}}
{{- range .written }}{{ $map = omit $map . }}{{ end -}}
{{- with $map }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* Names of the labels that the chart gives its objects and pods. */}}
{{- define "portcullis.ownLabels" -}}
- helm.sh/chart
- app.kubernetes.io/name
- app.kubernetes.io/instance
- app.kubernetes.io/version
- app.kubernetes.io/part-of
- app.kubernetes.io/managed-by
- app.kubernetes.io/component
- portcullis.dev/component
{{- end }}

{{/* Labels of a user's for one object, besides those of every object. (dict "root" $ "labels" …) */}}
{{- define "portcullis.furtherLabels" -}}
{{- $written := concat (include "portcullis.ownLabels" .root | fromYamlArray) (keys (.root.Values.extraLabels | default dict)) -}}
{{- include "portcullis.lines" (dict "map" .labels "written" $written) }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "portcullis.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: portcullis
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: portcullis
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with include "portcullis.lines" (dict "map" .Values.extraLabels "written" (include "portcullis.ownLabels" . | fromYamlArray)) }}
{{ . }}
{{- end }}
{{- end }}

{{/* Labels that select the pods of a component; they never change. (dict "root" $ "component" …) */}}
{{- define "portcullis.selector" -}}
app.kubernetes.io/name: portcullis
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
portcullis.dev/component: {{ .component }}
{{- end }}

{{/* Reference of an image. (dict "root" $ "name" …) */}}
{{- define "portcullis.image" -}}
{{- $images := .root.Values.images -}}
{{- $digest := index $images.digests .name -}}
{{- if $digest -}}
{{ printf "%s/%s@%s" $images.registry .name $digest }}
{{- else -}}
{{ printf "%s/%s:%s" $images.registry .name ($images.tag | default .root.Chart.AppVersion) }}
{{- end -}}
{{- end }}

{{/* Identity of a service account of this release. (dict "root" $ "account" …) */}}
{{- define "portcullis.identity" -}}
{{ .account }}.{{ .root.Release.Namespace }}.serviceaccount.identity.{{ .root.Release.Namespace }}.{{ .root.Values.identity.trustDomain }}
{{- end }}

{{/* What no container of ours needs. */}}
{{- define "portcullis.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
runAsGroup: 65532
runAsNonRoot: true
runAsUser: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Where and how the pods of a component run. (dict "root" $ "component" … "values" …) */}}
{{- define "portcullis.placement" -}}
{{- $selector := include "portcullis.selector" . | fromYaml -}}
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
nodeSelector:
  kubernetes.io/os: linux
{{- with include "portcullis.lines" (dict "map" .values.nodeSelector "written" (list "kubernetes.io/os")) }}
{{- . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
{{- toYaml . | nindent 2 }}
{{- end }}
affinity:
{{- with .values.affinity }}
{{- toYaml . | nindent 2 }}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- toYaml $selector | nindent 14 }}
{{- end }}
topologySpreadConstraints:
{{- with .values.topologySpreadConstraints }}
{{- toYaml . | nindent 2 }}
{{- else }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- toYaml $selector | nindent 8 }}
{{- end }}
{{- end }}

{{/* What a process of ours is told about its pod. */}}
{{- define "portcullis.downward" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: HOST_IPS
  {{- /* status.hostIPs is known from 1.29 on. */}}
  valueFrom: {fieldRef: {fieldPath: {{ ternary "status.hostIPs" "status.hostIP" (semverCompare ">=1.29.0-0" .Capabilities.KubeVersion.Version) }}}}
{{- end }}

{{/* Probes of the admin port. */}}
{{- define "portcullis.probes" -}}
startupProbe:
  httpGet: {path: /live, port: admin}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /live, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /ready, port: admin}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 3
{{- end }}

{{/* Whether the controller makes the webhook's certificate itself: "true" or nothing. */}}
{{- define "portcullis.provisions" -}}
{{- if and .Values.admission.enabled (not .Values.admission.tls.secretName) (not .Values.watchNamespaces) }}true{{ end -}}
{{- end }}

{{/* Whether pods have the outbound half where nothing else says so: "enabled", "mesh-only" or "disabled". Where no value
says it, a first installation has it, and an upgrade leaves it as the installed controller was started.
Without a cluster to look at nobody can tell the one from the other, so that it is off. */}}
{{- define "portcullis.outbound" -}}
{{- $installed := lookup "apps/v1" "Deployment" .Release.Namespace "policy-controller" -}}
{{- $result := "disabled" -}}
{{- if kindIs "bool" .Values.outbound.enabled -}}
{{- $result = ternary "enabled" "disabled" .Values.outbound.enabled -}}
{{- else if hasKey .Values.injector.defaults "outbound" -}}
{{- $result = .Values.injector.defaults.outbound -}}
{{- else if or (eq .Values.injector.sidecar "container") (semverCompare "<1.29.0-0" .Capabilities.KubeVersion.Version) -}}
{{- else if $installed -}}
{{- range $installed.spec.template.spec.containers -}}
{{- range .args -}}
{{- if hasPrefix "--injector-default=outbound=" . -}}
{{- $result = trimPrefix "--injector-default=outbound=" . | default "disabled" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else if and .Release.IsInstall (lookup "v1" "Namespace" "" "kube-system") -}}
{{- $result = "enabled" -}}
{{- end -}}
{{ $result }}
{{- end }}

{{/* Whether the controller tells sidecars what addresses lead to: "true" or nothing. It reads the whole cluster for that. */}}
{{- define "portcullis.discovers" -}}
{{- if not .Values.watchNamespaces }}true{{ end -}}
{{- end }}

{{/* Flags of `policy-controller run`, a YAML list. */}}
{{- define "portcullis.controller.args" -}}
{{- $v := .Values -}}
{{- $address := $v.controller.listenAddress -}}
- run
- --control-plane-namespace={{ .Release.Namespace }}
- --identity-domain={{ $v.identity.trustDomain }}
- --grpc-addr={{ $address }}:8090
- --admin-addr={{ $address }}:8080
- --log-level={{ $v.controller.logLevel }}
- --log-format={{ $v.controller.logFormat }}
- --default-policy={{ $v.policy.default }}
- --cluster-networks={{ join "," $v.policy.clusterNetworks }}
{{- if $v.linkerdCompatible }}
- --linkerd-compatible
{{- end }}
{{- range $difference, $whose := $v.policy.differences }}
- --{{ $difference }}={{ $whose }}
{{- end }}
{{- /* A flag that is not given follows --linkerd-compatible. */}}
{{- if kindIs "slice" $v.policy.probeNetworks }}
- --probe-networks={{ join "," $v.policy.probeNetworks }}
{{- end }}
{{- with $v.policy.probeRoutes }}
- --probe-routes={{ . }}
{{- end }}
- --pod-gateways={{ $v.policy.podGateways }}
- --kubelet-exemption={{ $v.policy.kubeletExemption }}
{{- if kindIs "bool" $v.policy.localhostAuthorization }}
- --localhost-authorization={{ $v.policy.localhostAuthorization }}
{{- end }}
{{- with $v.policy.referenceGrants }}
- --reference-grants={{ . }}
{{- end }}
{{- with $v.policy.sharedNamespaces }}
- --shared-namespaces={{ join "," . }}
{{- end }}
- --undeclared-ports={{ $v.policy.undeclaredPorts }}
- --detect-timeout={{ int $v.policy.detectTimeout }}
{{- with $v.watchNamespaces }}
- --watch-namespace={{ join "," . }}
{{- end }}
{{- with $v.nodeAddresses }}
{{- $nodes := list }}
{{- range $node, $addresses := . }}
{{- $nodes = append $nodes (printf "%s=%s" $node (join "," $addresses)) }}
{{- end }}
- --node-addresses={{ join ";" $nodes }}
{{- end }}
{{- with $v.controller.viewerIdentities }}
- --viewer-identities={{ join "," . }}
{{- end }}
{{- if $v.watchNamespaces }}
{{- /* To ask about tokens takes a right on the whole cluster. */}}
- --no-viewer-tokens
{{- end }}
{{ include "portcullis.identity.args" . | trim }}
{{- if not $v.admission.enabled }}
- --admission-controller-disabled
{{- else }}
- --server-addr={{ $address }}:9443
{{- if $v.admission.tls.secretName }}
- --server-tls-certs=/var/run/portcullis/admission/tls.crt
- --server-tls-key=/var/run/portcullis/admission/tls.key
{{- end }}
{{- end }}
{{- if $v.injector.enabled }}
- --injector
- --injector-sidecar={{ $v.injector.sidecar }}
- --injector-cluster-domain={{ $v.clusterDomain }}
- --injector-bypass={{ $v.injector.bypass }}
{{- /* By the file, so that pods are created while the controller has no certificate. */}}
- --injector-roots=/var/run/portcullis/roots/ca-bundle.crt
{{- if $v.injector.linkerdInject }}
- --injector-linkerd-inject
{{- end }}
{{- if $v.injector.disableIPv6 }}
- --injector-disable-ipv6
{{- end }}
{{- if eq $v.identity.mode "external" }}
- --injector-issuer-addr={{ include "portcullis.external.address" . }}
- --injector-issuer-name={{ include "portcullis.external.identity" . }}
- --injector-token-audience={{ $v.identity.external.tokenAudience }}
{{- /* Nobody publishes later roots that its authority vouches for. */}}
- --injector-fixed-roots
{{- end }}
{{- $outbound := $v.outbound }}
- --injector-outbound-transport={{ $outbound.transport }}
- --injector-outbound-unanswered={{ $outbound.unanswered }}
{{- with $outbound.networks }}
- --injector-outbound-networks={{ join "," . }}
{{- end }}
{{- with $outbound.plaintextAllowed }}
- --injector-outbound-plaintext-allowed={{ join "," . }}
{{- end }}
{{- $defaults := dict "proxy-image" (printf "%s/proxy" $v.images.registry) "init-image" (printf "%s/init" $v.images.registry) "proxy-version" ($v.images.tag | default .Chart.AppVersion) "image-pull-policy" $v.images.pullPolicy }}
{{- with include "portcullis.outbound" . }}
{{- if ne . "disabled" }}
{{- $defaults = set $defaults "outbound" . }}
{{- end }}
{{- end }}
{{- range $setting, $value := merge (dict) $v.injector.defaults $defaults }}
- {{ printf "--injector-default=%s=%v" $setting (ternary (int64 $value) $value (kindIs "float64" $value)) | quote }}
{{- end }}
{{- end }}
{{- range $v.outbound.peers }}
- --outbound-peers=namespace={{ .namespace }},trust-domain={{ .trustDomain }},shared-roots={{ .sharedRoots }}
{{- end }}
{{- with $v.outbound.externalWorkloadNamespaces }}
- --external-workload-namespaces={{ join "," . }}
{{- end }}
{{- with $v.outbound.formerTrustDomains }}
- --former-trust-domains={{ join "," . }}
{{- end }}
{{- if $v.besideLinkerd.enabled }}
- --beside-linkerd
- --linkerd-policy-addr={{ $v.besideLinkerd.policyAddress | default (printf "linkerd-policy.%s.svc.%s:8090" .Release.Namespace $v.clusterDomain) }}
{{- if $v.besideLinkerd.redirectProxies }}
- --redirect-linkerd-proxies
- --injector-cluster-domain={{ $v.clusterDomain }}
{{- end }}
- --linkerd-policy-name={{ $v.besideLinkerd.policyServerName | default (include "portcullis.identity" (dict "root" . "account" "linkerd-destination")) }}
{{- end }}
{{- with $v.metrics.allowFrom }}
{{- if kindIs "slice" .identities }}
- --metrics-allow-identities={{ join "," .identities }}
{{- end }}
{{- if kindIs "slice" .networks }}
- --metrics-allow-networks={{ join "," .networks }}
{{- end }}
{{- end }}
{{- with $v.controller.extraArgs }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* Host and port of the service that issues certificates, where it is not ours. */}}
{{- define "portcullis.external.address" -}}
{{ .Values.identity.external.address | default (printf "linkerd-identity-headless.%s.svc.%s:8080" .Release.Namespace .Values.clusterDomain) }}
{{- end }}

{{/* The identity that it proves. */}}
{{- define "portcullis.external.identity" -}}
{{ .Values.identity.external.serverName | default (include "portcullis.identity" (dict "root" . "account" "linkerd-identity")) }}
{{- end }}

{{/* How the controller comes by its own certificate. */}}
{{- define "portcullis.identity.args" -}}
- --identity=certify
{{- if eq .Values.identity.mode "issuer" }}
- --identity-addr=portcullis-issuer.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}:8080
- --identity-service-name={{ include "portcullis.identity" (dict "root" . "account" "portcullis-issuer") }}
{{- else }}
- --identity-addr={{ include "portcullis.external.address" . }}
- --identity-service-name={{ include "portcullis.external.identity" . }}
{{- end }}
- --identity-token=/var/run/secrets/portcullis/token
- --identity-name={{ include "portcullis.identity" (dict "root" . "account" "policy-controller") }}
- --identity-roots=/var/run/portcullis/roots/ca-bundle.crt
{{- end }}
