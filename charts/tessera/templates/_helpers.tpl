{{- define "tessera.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tessera.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "tessera.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tessera.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tessera.selectorLabels" -}}
app.kubernetes.io/name: {{ include "tessera.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "tessera.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "tessera.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "tessera.image" -}}
{{ required "image.repository is required: build and push the image with deploy/images/build --push PREFIX, then --set image.repository=PREFIX/tessera,image.tag=TAG (docs/install.md)" .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{- define "tessera.operatorAccount" -}}
{{- if .Values.operator.serviceAccount.create -}}
{{- default (printf "%s-operator" (include "tessera.fullname" .)) .Values.operator.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.operator.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tessera.nodeAccount" -}}
{{- if .Values.devicePlugin.serviceAccount.create -}}
{{- default (printf "%s-node" (include "tessera.fullname" .)) .Values.devicePlugin.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.devicePlugin.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* "true" if pools may allocate GPUs to ResourceClaims. */}}
{{- define "tessera.dra" -}}
{{- if kindIs "invalid" .Values.dra.enabled -}}
{{- semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version -}}
{{- else -}}
{{- .Values.dra.enabled -}}
{{- end -}}
{{- end -}}

{{- define "tessera.migConfigMap" -}}
{{- default (printf "%s-default-mig-parted-config" (include "tessera.fullname" .)) .Values.migManager.config.name -}}
{{- end -}}

{{/* Meets Pod Security "restricted", together with tessera.containerSecurity. */}}
{{- define "tessera.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tessera.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Identifies image and configuration; the operator records on its Lease which of them it has applied. */}}
{{- define "tessera.configuration" -}}
{{- printf "%s %s" (include "tessera.image" .) (include (print $.Template.BasePath "/operator-config.yaml") .) | sha256sum | trunc 16 -}}
{{- end -}}

{{/* Pods that run once: the hooks and the test. */}}
{{- define "tessera.shortPod" -}}
restartPolicy: Never
serviceAccountName: {{ .account | quote }}
securityContext:
  {{- include "tessera.podSecurity" .context | nindent 2 }}
{{- with .context.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .context.Values.operator.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .context.Values.operator.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "tessera.shortContainer" -}}
image: {{ include "tessera.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
resources:
  requests: {cpu: 20m, memory: 64Mi}
  limits: {memory: 256Mi}
securityContext:
  {{- include "tessera.containerSecurity" . | nindent 2 }}
{{- end -}}
