#!/bin/sh
# Starts the MLflow server with accounts. Environment: compose.yaml.
set -eu
umask 077
# MLflow reads the accounts' database from this file only.
cat > basic_auth.ini <<INI
[mlflow]
# What an account may do with what is not its own: READ, EDIT, MANAGE or NO_PERMISSIONS.
default_permission = ${DEFAULT_PERMISSION:-EDIT}
database_uri = $ACCOUNTS_URI
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
# Seconds that a checked password is remembered; at 0 it is hashed for each request, which costs as much as several requests.
auth_cache_ttl_seconds = 60
INI
export MLFLOW_AUTH_CONFIG_PATH="$PWD/basic_auth.ini"
exec "${MLFLOW:-mlflow}" server --app-name basic-auth --host "${HOST:-0.0.0.0}" --port "${PORT:-5000}" --workers 1 \
  --allowed-hosts "$ALLOWED_HOSTS" --cors-allowed-origins "$ALLOWED_ORIGINS" \
  --backend-store-uri "$BACKEND_URI" --artifacts-destination "$ARTIFACTS"
