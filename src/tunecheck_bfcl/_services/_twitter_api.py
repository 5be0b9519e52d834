"""TwitterAPI: one account that posts, retweets, comments and follows."""

import copy
from collections.abc import Mapping
from typing import ClassVar, TypeAlias

from tunecheck import DataError
from tunecheck.plugins import JSON
from tunecheck.simulators import Simulator, SimulatorError, tool
from tunecheck_bfcl._services._figures import taken

Fields: TypeAlias = dict[str, JSON]


class TwitterAPI(Simulator):
    """Configuration: any of the state's parts; what it lacks is an account "john" that has posted nothing.

    State: `username`, `password`, `authenticated`, `tweets` (by id, a number), `comments` (lists by id), `retweets`
    (lists of ids by user), `following_list`, `tweet_counter` (the next id).
    """

    bounded: ClassVar[bool] = True

    def load(self, config: Mapping[str, JSON], *, long_context: Mapping[str, JSON] | None = None) -> None:
        """See `Simulator.load`. Comments of the configuration keep its keys, which are text, as BFCL's data need."""
        name = "TwitterAPI"
        none: dict[str, JSON] = {}
        self._username = taken(config, name, "username", "john")
        self._password = taken(config, name, "password", "john123")
        self._authenticated = taken(config, name, "authenticated", False)
        self._tweets = _tweets(taken(config, name, "tweets", none))
        comments = taken(config, name, "comments", none)
        self._comments: dict[str | int, JSON] = dict(comments.items())
        self._retweets = taken(config, name, "retweets", none)
        self._following: list[JSON] = taken(config, name, "following_list", ["alice", "bob"])
        self._counter = taken(config, name, "tweet_counter", 0)

    def state(self) -> dict[str, object]:
        return {
            "username": self._username,
            "password": self._password,
            "authenticated": self._authenticated,
            "tweets": self._tweets,
            "comments": self._comments,
            "retweets": self._retweets,
            "following_list": self._following,
            "tweet_counter": self._counter,
        }

    @tool
    def authenticate_twitter(self, username: str, password: str) -> Fields:
        """Log in to the account.

        Args:
            username: Name of the user.
            password: Password of the user.
        """
        matches = username == self._username and password == self._password
        self._authenticated = self._authenticated or matches
        return {"authentication_status": matches}

    @tool
    def posting_get_login_status(self) -> Fields:
        """Tell whether the account is logged in."""
        return {"login_status": self._authenticated}

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
            "id": self._counter,
            "username": self._username,
            "content": copy.deepcopy(content),
            "tags": copy.deepcopy(tags),  # type: ignore[dict-item]
            "mentions": copy.deepcopy(mentions),  # type: ignore[dict-item]
        }
        self._tweets[self._counter] = tweet
        self._counter += 1
        return tweet

    @tool
    def retweet(self, tweet_id: int) -> Fields:
        """Retweet a tweet.

        Args:
            tweet_id: Id of the tweet.
        """
        self._check_login("retweeting")
        self._tweet(tweet_id)
        made = self._retweets.setdefault(self._username, [])
        if not isinstance(made, list):
            raise SimulatorError("the retweets of this user are not a list")
        if tweet_id in made:
            return {"retweet_status": "Already retweeted"}
        made.append(tweet_id)
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
        made = self._comments.setdefault(tweet_id, [])
        if isinstance(made, list):
            made.append({"username": self._username, "content": copy.deepcopy(comment_content)})
        return {"comment_status": "Comment added successfully"}

    @tool
    def mention(self, tweet_id: int, mentioned_usernames: list[str]) -> Fields:
        """Mention users in a tweet.

        Args:
            tweet_id: Id of the tweet.
            mentioned_usernames: Names of the users.
        """
        mentions = self._tweet(tweet_id)["mentions"]
        if not isinstance(mentions, list):
            raise SimulatorError("the mentions of this tweet are not a list")
        mentions.extend(copy.deepcopy(mentioned_usernames))
        return {"mention_status": "Users mentioned successfully"}

    @tool
    def follow_user(self, username_to_follow: str) -> Fields:
        """Follow a user.

        Args:
            username_to_follow: Name of the user.
        """
        self._check_login("following")
        if username_to_follow in self._following:
            return {"follow_status": False}
        self._following.append(copy.deepcopy(username_to_follow))
        return {"follow_status": True}

    @tool
    def unfollow_user(self, username_to_unfollow: str) -> Fields:
        """Follow a user no longer.

        Args:
            username_to_unfollow: Name of the user.
        """
        self._check_login("unfollowing")
        if username_to_unfollow not in self._following:
            return {"unfollow_status": False}
        self._following.remove(username_to_unfollow)
        return {"unfollow_status": True}

    @tool
    def list_all_following(self) -> Fields:
        """List the users whom the account follows."""
        self._check_login("listing")
        return {"following_list": self._following}

    @tool
    def get_tweet(self, tweet_id: int) -> Fields:
        """Show a tweet.

        Args:
            tweet_id: Id of the tweet.
        """
        return self._tweet(tweet_id)

    @tool
    def get_user_tweets(self, username: str) -> list[Fields]:
        """Show all tweets of a user.

        Args:
            username: Name of the user.
        """
        return [tweet for tweet in self._tweets.values() if tweet["username"] == username]

    @tool
    def search_tweets(self, keyword: str) -> list[Fields]:
        """Find tweets that contain a text or have it as a tag, in upper or lower case.

        Args:
            keyword: The text to look for.
        """
        return [tweet for tweet in self._tweets.values() if _matches(tweet, keyword)]

    @tool
    def get_tweet_comments(self, tweet_id: int) -> JSON:
        """Show the comments on a tweet.

        Args:
            tweet_id: Id of the tweet.
        """
        self._tweet(tweet_id)
        return self._comments.get(tweet_id, [])

    @tool
    def get_user_stats(self, username: str) -> Fields:
        """Count a user's tweets and retweets, and the users followed.

        Args:
            username: Name of the user.
        """
        retweets = self._retweets.get(username, [])
        return {
            "tweet_count": len(self.get_user_tweets(username)),
            "following_count": len(self._following) if username == self._username else 0,
            "retweet_count": len(retweets) if isinstance(retweets, list) else 0,
        }

    def _check_login(self, doing: str) -> None:
        if not self._authenticated:
            raise SimulatorError(f"the account must be logged in before {doing}")

    def _tweet(self, tweet_id: int) -> Fields:
        if tweet_id not in self._tweets:
            raise SimulatorError(f"there is no tweet with the id {tweet_id}")
        return self._tweets[tweet_id]


def _tweets(config: dict[str, JSON]) -> dict[int, Fields]:
    tweets: dict[int, Fields] = {}
    for key, tweet in config.items():
        if not key.isdecimal() or not isinstance(tweet, dict):
            raise DataError(f"initial_config.TwitterAPI.tweets.{key[:60]}: objects by their ids are needed")
        tweets[int(key)] = tweet
    return tweets


def _matches(tweet: Fields, keyword: str) -> bool:
    content, wanted = tweet["content"], keyword.lower()
    if not isinstance(content, str):
        raise SimulatorError("what a tweet says is not text")
    return wanted in content.lower() or wanted in [tag.lower() for tag in tweet["tags"]]  # type: ignore[union-attr]
