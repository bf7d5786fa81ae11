{{- define "mqregistry.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- /* At most 40 characters, because names of Services have at most 63 and suffixes like "-front-ends-headless" follow. */ -}}
{{- define "mqregistry.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}{{ $name = .Release.Name }}{{ else }}{{ $name = printf "%s-%s" .Release.Name $name }}{{ end }}
{{- default $name .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "mqregistry.selector" -}}
app.kubernetes.io/name: {{ include "mqregistry.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "mqregistry.labels" -}}
{{ include "mqregistry.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* The common fields of all pods of this chart; component and values are those of the part. */ -}}
{{- define "mqregistry.pod" -}}
automountServiceAccountToken: false
# With links, Kubernetes would set variables like MQREGISTRY_PORT for the Services of this chart.
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "mqregistry.selector" . | nindent 8 }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "mqregistry.selector" . | nindent 8 }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "mqregistry.container" -}}
{{- with .root.Values.image }}
image: {{ ternary (printf "%s@%s" .repository .digest) (printf "%s:%s" .repository (.tag | default $.root.Chart.AppVersion)) (ne .digest "") | quote }}
{{- end }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  {{- include "mqregistry.containerSecurity" . | nindent 2 }}
resources:
  {{- toYaml .values.resources | nindent 2 }}
{{- end }}

{{- define "mqregistry.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* The extra environment, mounts and volumes that the values of a part name. */ -}}
{{- define "mqregistry.extraEnv" -}}
{{- with .values.extraEnv }}{{ toYaml . }}{{ end }}
{{- end }}
{{- define "mqregistry.extraMounts" -}}
{{- with .values.extraVolumeMounts }}{{ toYaml . }}{{ end }}
{{- end }}
{{- define "mqregistry.extraVolumes" -}}
{{- with .values.extraVolumes }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* The variables that name Redis. user: the name with which this part logs in to the Redis of trials. */ -}}
{{- define "mqregistry.redisEnv" -}}
{{- $redis := .root.Values.redis -}}
- name: MQREGISTRY_NAMESPACE
  value: {{ .root.Values.namespace | quote }}
{{- if $redis.trial.enabled }}
- name: MQREGISTRY_REDIS
  value: {{ printf "redis://%s@%s-redis:6379/0" .user (include "mqregistry.fullname" .root) }}
- name: MQREGISTRY_REDIS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ include "mqregistry.fullname" .root }}-redis
      key: {{ .user }}
{{- else }}
{{- $url := .url | default (required "redis.url: name your Redis, redis://mqregistry@HOST:6379/0; or, for a trial, set redis.trial.enabled=true" $redis.url) }}
{{- $secret := ternary .passwordSecret $redis.passwordSecret (ne (dig "name" "" (.passwordSecret | default dict)) "") }}
{{- if regexMatch "^[^:]*://[^/]*:[^/@]*@" $url }}
{{- fail "redis.url: leave the password out, because every pod's description would show it; redis.passwordSecret names the Secret with the password" }}
{{- end }}
{{- if and (contains "@" $url) (not $secret.name) }}
{{- fail "redis.url names a user: set redis.passwordSecret.name to the Secret with the user's password" }}
{{- end }}
- name: MQREGISTRY_REDIS
  value: {{ $url | quote }}
{{- if $secret.name }}
- name: MQREGISTRY_REDIS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ $secret.name }}
      key: {{ $secret.key }}
{{- end }}
{{- end }}
{{- end }}

{{- define "mqregistry.redisMount" -}}
{{- if .Values.redis.tlsSecret -}}
- name: redis-tls
  mountPath: /etc/mqregistry/redis
  readOnly: true
{{- end }}
{{- end }}

{{- define "mqregistry.redisVolume" -}}
{{- with .Values.redis.tlsSecret -}}
- name: redis-tls
  secret:
    secretName: {{ . }}
{{- end }}
{{- end }}
