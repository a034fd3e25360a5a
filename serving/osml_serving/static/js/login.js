// The panel that asks for a token, and says what is wrong with one.
import { isToken, rememberToken } from "./api.js";
import { byId, setText } from "./dom.js";

export class Login {
  // `poll` asks the server; what it promises is false where the server wants another token.
  constructor(poll) {
    this.poll = poll;
    byId("enter").addEventListener("click", () => this.enter());
    byId("token").addEventListener("keydown", (event) => event.key === "Enter" && this.enter());
  }

  show() {
    byId("login").hidden = false;
  }

  hide() {
    byId("login").hidden = true;
    this.say("");
  }

  say(text) {
    setText(byId("refused"), text);
    byId("refused").hidden = !text;
  }

  async enter() {
    const token = byId("token").value.trim();
    byId("token").value = "";
    this.say("");
    if (!token) return;
    if (!isToken(token)) {
      this.say("This is no token: a token has only letters, digits and signs of ASCII.");
      return;
    }
    rememberToken(token);
    if (await this.poll() === false) this.say("The server refuses this token: it is unknown, revoked, too old, or of another scope.");
  }
}
