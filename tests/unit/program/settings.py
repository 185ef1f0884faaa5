"""Settings and names that several of these tests use."""

from __future__ import annotations

ENCRYPTION_KEY = "demo-control-plane-encryption-key"
METAL_1 = {"name": "metal-1", "address": "10.8.0.200", "hostKey": "ssh-ed25519 AAAA"}
SSH_KEY = ["demo-ssh privateKey Openssh\n", "demo-ssh-2 privateKey Openssh\n"]
LOCAL = "local:Command"
METAL_A = {"name": "metal-a", "address": "10.8.1.5", "hostKey": "ecdsa-sha2-nistp256 AAAA"}
METAL = {"name": "metal", "machines": [METAL_A]}
BUCKET = {"endpoint": "https://object.example.org/", "name": "backups", "accessKey": "AKEY"}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
PROXY_PASSWORD = "the-password-of-the-proxy"
BACKUP_SECRET_KEY = "the-secret-key-of-the-bucket"
