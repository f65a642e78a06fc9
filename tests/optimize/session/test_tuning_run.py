from optimize.session.tuning_run import MaskedReplies


class Kept(dict[str, str]):
    def put(self, key: str, reply: str) -> None:
        self[key] = reply


def test_a_secret_is_not_kept_and_comes_back() -> None:
    kept, secrets = Kept(), ["canary-longer", "canary"]
    replies = MaskedReplies(kept, lambda: secrets)
    for said in ("your key canary-longer is fine", "canary, canary-longer", "nothing of it", ""):
        replies.put("k", said)
        assert "canary" not in kept["k"]
        assert replies.get("k") == said
    assert replies.get("another") is None


def test_another_key_later_is_put_where_the_first_one_was() -> None:
    kept = Kept()
    MaskedReplies(kept, lambda: ["first-key"]).put("k", "key first-key")
    assert MaskedReplies(kept, lambda: ["second-key"]).get("k") == "key second-key"
