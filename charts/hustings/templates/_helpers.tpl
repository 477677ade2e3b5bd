{{- define "hustings.selector" -}}
app.kubernetes.io/name: hustings
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hustings.labels" -}}
{{ include "hustings.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "hustings.serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Release.Name }}
{{- end }}

{{- /* What electing takes, in the whole cluster or in each watched namespace. */}}
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
{{- end }}
