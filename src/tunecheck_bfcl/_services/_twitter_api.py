"""TwitterAPI: one account that posts, retweets, comments and follows.

Tweets have numbers as ids, from `tweet_counter`. JSON has only texts as keys, so `load` converts the keys of tweets.
The keys of comments stay text, as in BFCL: comments in the configuration are therefore not found by a tweet's number.

Arguments are copied before they are kept. Otherwise a later `mention` would change the arguments of an earlier call.
"""

import copy
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, cast

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck.simulators import tool
from tunecheck_bfcl._services._figures import ConfiguredService, refuse_if

Fields: TypeAlias = dict[str, JSON]

_DEFAULTS: dict[str, JSON] = {
    "username": "john", "password": "john123", "authenticated": False,
    "tweets": {}, "comments": {}, "retweets": {}, "following_list": ["alice", "bob"], "tweet_counter": 0,
}  # fmt: skip


class TwitterAPI(ConfiguredService):
    """Configuration: any of the state's parts. The defaults are an account "john" without posts.

    State: `username`, `password`, `authenticated`, `tweets` (by id, a number), `comments` (lists by id), `retweets`
    (lists of ids by user), `following_list`, `tweet_counter` (the next id).
    """

    exact: ClassVar[frozenset[str]] = frozenset({"username", "password", "authenticated", "tweet_counter"})
    padded: ClassVar[bool] = False
    defaults = _DEFAULTS

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """Start from a configuration, with defaults for missing keys. Long context changes nothing.

        The keys of tweets become numbers; those of comments stay text, as BFCL's data need.

        Raises:
            DataError: a value has the wrong type, a tweet is not an object, or its key is not a number.
        """
        super().load(config)

        for key, tweet in self.data["tweets"].items():
            if not key.isdecimal() or not isinstance(tweet, dict):
                path = f"initial_config.TwitterAPI.tweets.{key[:60]}"
                raise DataError(f"{path}: the key must be the tweet's number, and the value an object")

        self.data["tweets"] = {int(key): tweet for key, tweet in self.data["tweets"].items()}

    @tool
    def authenticate_twitter(self, username: str, password: str) -> Fields:
        """Log in to the account.

        Args:
            username: Name of the user.
            password: Password of the user.
        """
        matches = username == self.data["username"] and password == self.data["password"]
        self.data["authenticated"] = self.data["authenticated"] or matches
        return {"authentication_status": matches}

    @tool
    def posting_get_login_status(self) -> Fields:
        """Tell whether the account is logged in."""
        return {"login_status": self.data["authenticated"]}

    @tool
    def post_tweet(self, content: str, tags: list[str] = [], mentions: list[str] = []) -> Fields:  # noqa: B006 - never changed
        """Post a tweet.

        Args:
            content: What the tweet says.
            tags: Its tags, each beginning with "#".
            mentions: The users it mentions, each beginning with "@".
        """
        self._check_login("posting")

        tweet: Fields = {
            "id": self.data["tweet_counter"],
            "username": self.data["username"],
            "content": copy.deepcopy(content),
            "tags": copy.deepcopy(tags),  # type: ignore[dict-item]
            "mentions": copy.deepcopy(mentions),  # type: ignore[dict-item]
        }

        self.data["tweets"][self.data["tweet_counter"]] = tweet
        self.data["tweet_counter"] += 1
        return copy.deepcopy(tweet)

    @tool
    def retweet(self, tweet_id: int) -> Fields:
        """Retweet a tweet.

        Args:
            tweet_id: Id of the tweet.
        """
        self._check_login("retweeting")
        self._tweet(tweet_id)
        retweets = self.data["retweets"].setdefault(self.data["username"], [])
        if tweet_id in retweets:
            return {"retweet_status": "Already retweeted"}
        retweets.append(tweet_id)
        return {"retweet_status": "Successfully retweeted"}

    @tool
    def comment(self, tweet_id: int, comment_content: str) -> Fields:
        """Comment on a tweet.

        Args:
            tweet_id: Id of the tweet.
            comment_content: What the comment says.
        """
        self._check_login("commenting")
        self._tweet(tweet_id)
        comments = self.data["comments"].setdefault(tweet_id, [])

        # Configured comments have text keys, so a tweet's number leads to a list made here, unless Python code built
        # the row. The leaderboard's service reports success in any case.
        if isinstance(comments, list):
            comments.append({"username": self.data["username"], "content": copy.deepcopy(comment_content)})

        return {"comment_status": "Comment added successfully"}

    @tool
    def mention(self, tweet_id: int, mentioned_usernames: list[str]) -> Fields:
        """Mention users in a tweet.

        Args:
            tweet_id: Id of the tweet.
            mentioned_usernames: Names of the users.
        """
        self._tweet(tweet_id)["mentions"].extend(copy.deepcopy(mentioned_usernames))
        return {"mention_status": "Users mentioned successfully"}

    @tool
    def follow_user(self, username_to_follow: str) -> Fields:
        """Follow a user.

        Args:
            username_to_follow: Name of the user.
        """
        self._check_login("following")
        if username_to_follow in self.data["following_list"]:
            return {"follow_status": False}
        self.data["following_list"].append(copy.deepcopy(username_to_follow))
        return {"follow_status": True}

    @tool
    def unfollow_user(self, username_to_unfollow: str) -> Fields:
        """Follow a user no longer.

        Args:
            username_to_unfollow: Name of the user.
        """
        self._check_login("unfollowing")
        if username_to_unfollow not in self.data["following_list"]:
            return {"unfollow_status": False}
        self.data["following_list"].remove(username_to_unfollow)
        return {"unfollow_status": True}

    @tool
    def list_all_following(self) -> Fields:
        """List the users whom the account follows."""
        self._check_login("listing")
        return {"following_list": self.data["following_list"]}

    @tool
    def get_tweet(self, tweet_id: int) -> Fields:
        """Show a tweet.

        Args:
            tweet_id: Id of the tweet.
        """
        return copy.deepcopy(self._tweet(tweet_id))

    @tool
    def get_user_tweets(self, username: str) -> list[Fields]:
        """Show all tweets of a user.

        Args:
            username: Name of the user.
        """
        return [tweet for tweet in self.data["tweets"].values() if tweet["username"] == username]

    @tool
    def search_tweets(self, keyword: str) -> list[Fields]:
        """Find tweets that contain a text or have it as a tag, in upper or lower case.

        Args:
            keyword: The text to look for.
        """
        return [tweet for tweet in self.data["tweets"].values() if _matches(tweet, keyword)]

    @tool
    def get_tweet_comments(self, tweet_id: int) -> JSON:
        """Show the comments on a tweet.

        Args:
            tweet_id: Id of the tweet.
        """
        self._tweet(tweet_id)
        return cast("JSON", self.data["comments"].get(tweet_id, []))

    @tool
    def get_user_stats(self, username: str) -> Fields:
        """Count a user's tweets and retweets, and the users followed.

        Args:
            username: Name of the user.
        """
        retweets = self.data["retweets"].get(username, [])
        return {
            "tweet_count": len(self.get_user_tweets(username)),
            "following_count": len(self.data["following_list"]) if username == self.data["username"] else 0,
            "retweet_count": len(retweets) if isinstance(retweets, list) else 0,
        }

    def _check_login(self, activity: str) -> None:
        """Raise SimulatorError, which names the activity that needs the login, if the account is not logged in."""
        refuse_if(not self.data["authenticated"], f"the account must be logged in before {activity}")

    def _tweet(self, tweet_id: int) -> dict[str, Any]:
        """Return the tweet itself, not a copy, or raise SimulatorError if there is none with this id."""
        return self.entry("tweets", tweet_id, f"there is no tweet with the id {tweet_id}")


def _matches(tweet: dict[str, Any], keyword: str) -> bool:
    """Return True if the tweet contains the keyword or has it as a whole tag, in upper or lower case."""
    wanted = keyword.lower()
    return wanted in tweet["content"].lower() or wanted in [tag.lower() for tag in tweet["tags"]]
