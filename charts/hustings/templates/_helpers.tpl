{{- define "hustings.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of every object, as `helm create` forms it. A subchart has the name of its alias. A release's name may contain
dots, a Service's may not. */}}
{{- define "hustings.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- $combined := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- .Values.fullnameOverride | default $combined | replace "." "-" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "hustings.selector" -}}
app.kubernetes.io/name: {{ include "hustings.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "hustings.labels" -}}
{{ include "hustings.labelsWith" (list . dict) }}
{{- end }}

{{- /* The chart's labels, then those of one object, then those of all objects. The first label of a name counts. */}}
{{- define "hustings.labelsWith" -}}
{{- $root := index . 0 }}
{{- $labels := include "hustings.selector" $root | fromYaml }}
{{- $_ := set $labels "app.kubernetes.io/part-of" "hustings" }}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") }}
{{- toYaml (merge $labels (index . 1 | default dict) ($root.Values.commonLabels | default dict)) }}
{{- end }}

{{- define "hustings.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "hustings.fullname" .) }}
{{- end }}

{{- /* The image without its tag. */}}
{{- define "hustings.repository" -}}
{{- $registry := (.Values.global | default dict).imageRegistry | default .Values.image.registry }}
{{- if $registry }}{{ trimSuffix "/" $registry }}/{{ end }}{{ .Values.image.repository }}
{{- end }}

{{- define "hustings.image" -}}
{{ include "hustings.repository" . }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* A container runtime would pull an image without a registry from a public one, where it may be someone else's. */}}
{{- define "hustings.pullPolicy" -}}
{{ .Values.image.pullPolicy | default (contains "/" (include "hustings.repository" .) | ternary "IfNotPresent" "Never") }}
{{- end }}

{{- /* Names of Secrets, as an object or as a text. */}}
{{- define "hustings.imagePullSecrets" -}}
{{- $secrets := list }}
{{- $global := (.Values.global | default dict).imagePullSecrets | default list }}
{{- range concat $global (.Values.imagePullSecrets | default list) }}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- with uniq $secrets }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "hustings.probe" -}}
httpGet: {path: {{ .path }}, port: admin{{ with .host }}, host: {{ trimAll "[]" . | quote }}{{ end }}}
{{ toYaml (omit .probe "enabled") }}
{{- end }}

{{- /* One endpoint of a ServiceMonitor or a PodMonitor. */}}
{{- define "hustings.scrape" -}}
- port: admin
  path: /metrics
  interval: {{ .interval }}
  {{- with .scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  honorLabels: {{ .honorLabels }}
  {{- with .relabelings }}
  relabelings: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* The section of the runbook on an alert. */}}
{{- define "hustings.runbook" -}}
{{- with (index . 0).Values.prometheusRule.runbook }}runbook_url: {{ printf "%s%s" . (index $ 1 | lower) | quote }}{{ end }}
{{- end }}

{{- /* The controllers. Without the Deployment, nobody uses its ServiceAccount. */}}
{{- define "hustings.subjects" -}}
{{- $account := dict "kind" "ServiceAccount" "name" (include "hustings.serviceAccount" .) "namespace" .Release.Namespace }}
{{- toYaml (concat (.Values.deployment.enabled | ternary (list $account) list) (.Values.extraSubjects | default list)) }}
{{- end }}

{{- /* The flag for one item of assist.leases. */}}
{{- define "hustings.assisted" -}}
--assist={{ .lease }}
{{- with .container }},container={{ . }}{{ end }}
{{- with .podNamespace }},pod-namespace={{ . }}{{ end }}
{{- with .podPrefix }},pod-prefix={{ . }}{{ end }}
{{- end }}

{{- /* The namespace of the controllers' own Lease. */}}
{{- define "hustings.leaseNamespace" -}}
{{ .Values.leaderElection.namespace | default .Release.Namespace }}
{{- end }}

{{- /* Whether the controller looks names up. By default the address of the API server is an IP address of the environment. A
kubeconfig file may name a host. A variable names a host if its value is not empty and has no IP address as its host. */}}
{{- define "hustings.usesDns" -}}
{{- $dns := .Values.networkPolicy.dns }}
{{- $uses := false }}
{{- range .Values.extraArgs }}
{{- $uses = or $uses (hasPrefix "--kubeconfig=" .) }}
{{- end }}
{{- range .Values.extraEnv }}
{{- $value := .value | default "" }}
{{- $isFile := has .name (list "KUBECONFIG" "HUSTINGS_KUBECONFIG") }}
{{- $names := regexMatch "^(KUBERNETES_SERVICE_HOST|(?i:https?_proxy|all_proxy))$" .name }}
{{- $isAddress := regexMatch "^([a-z0-9]+://)?([^@/]*@)?(localhost|[0-9.]+|\\[[0-9a-fA-F:.]+\\]|[0-9a-fA-F]*:[0-9a-fA-F:.]*)(:[0-9]+)?(/.*)?$" $value }}
{{- $isUnknown := hasKey . "valueFrom" }}
{{- $uses = or $uses $isFile (and $names (or $isUnknown (and $value (not $isAddress)))) }}
{{- end }}
{{- if or (eq $dns "always") (and (eq $dns "auto") $uses) }}true{{ end }}
{{- end }}

{{- /* The namespaces with traffic of elections. */}}
{{- define "hustings.electionNamespaces" -}}
{{- concat (.Values.watchNamespaces | default list) (list .Release.Namespace (include "hustings.leaseNamespace" .)) | uniq | toJson }}
{{- end }}

{{- /* The permissions of the controller, in the whole cluster or in each watched namespace. */}}
{{- define "hustings.electing" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, patch]
- apiGroups: [hustings.io]
  resources: [leasecandidates]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [hustings.io]
  resources: [leasecandidates/status]
  verbs: [patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- if .Values.native.enabled }}
- apiGroups: [coordination.k8s.io]
  resources: [leasecandidates]
  verbs: [get, list, watch, patch, delete]
{{- end }}
{{- if or .Values.evidence.pods .Values.leaderLabel.enabled }}
- apiGroups: [""]
  resources: [pods]
  verbs: {{ .Values.leaderLabel.enabled | ternary "[get, list, watch, patch]" "[list, watch]" }}
{{- end }}
{{- end }}

{{- /* The policies apply to users that may neither update such an object as a whole nor write a candidate's status. */}}
{{- define "hustings.components" -}}
- name: no-administrator
  expression: >-
    !authorizer.requestResource.check('update').allowed()
- name: no-controller
  expression: >-
    !authorizer.group('hustings.io').resource('leasecandidates').subresource('status').namespace(request.namespace)
      .check('patch').allowed()
# No such resource exists. The role hustings-operator has this right, so that its acts are not rejected.
- name: no-operator
  expression: >-
    !authorizer.group('hustings.io').resource('acts').namespace(request.namespace).check('create').allowed()
{{- end }}

{{- /* The pod that sends the request, if its token is bound to one. */}}
{{- define "hustings.pod" -}}
- name: pod
  expression: >-
    request.userInfo.?extra[?'authentication.kubernetes.io/pod-name'].orValue([]).join(',')
- name: podUid
  expression: >-
    request.userInfo.?extra[?'authentication.kubernetes.io/pod-uid'].orValue([]).join(',')
{{- end }}
