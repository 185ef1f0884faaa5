"""The user_data of a machine."""

import yaml

from components.user_data import user_data


def test_sshd_is_not_started_a_second_time_and_takes_no_passwords() -> None:
    text = user_data(
        name="demo-worker-0",
        user="debian",
        ssh_public_key="ssh-ed25519 AAAA",
        host_key="one-time key",
        host_public_key="ssh-ed25519 BBBB",
    )
    document = yaml.safe_load(text)
    # cloud-init restarts sshd for this key, in the middle of the first connection.
    assert "ssh_pwauth" not in document
    (settings,) = document["write_files"]
    assert settings["path"].startswith("/etc/ssh/sshd_config.d/")
    assert settings["content"] == "PasswordAuthentication no\n"
