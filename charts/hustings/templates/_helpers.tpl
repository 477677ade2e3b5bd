{{- define "hustings.selector" -}}
app.kubernetes.io/name: hustings
app.kubernetes.io/instance: {{ .Release.Name | quote }}
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

{{- /* Whom the policies concern: whoever may change such an object, but neither replace it nor write a candidate's status. */}}
{{- define "hustings.components" -}}
- name: no-administrator
  expression: >-
    !authorizer.requestResource.check('update').allowed()
- name: no-controller
  expression: >-
    !authorizer.group('hustings.io').resource('leasecandidates').subresource('status').namespace(request.namespace)
      .check('patch').allowed()
{{- end }}

{{- /* The pod that asks, where its token is bound to one. */}}
{{- define "hustings.pod" -}}
- name: pod
  expression: >-
    request.userInfo.?extra[?'authentication.kubernetes.io/pod-name'].orValue([]).join(',')
- name: podUid
  expression: >-
    request.userInfo.?extra[?'authentication.kubernetes.io/pod-uid'].orValue([]).join(',')
{{- end }}
