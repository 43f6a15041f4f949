/** Asks for a token, once per tab. */
import { useState } from "preact/hooks";
import { signIn } from "./session.ts";

export function SignIn({ problem: first }: { readonly problem: string | null }) {
  const [problem, setProblem] = useState(first);
  const [isChecking, setIsChecking] = useState(false);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const given = new FormData(event.currentTarget).get("token");
    setIsChecking(true);
    setProblem(await signIn(typeof given === "string" ? given : ""));
    setIsChecking(false);
  };
  return (
    <main class="sign-in">
      <h1>Headgate console</h1>
      <form onSubmit={(event) => void submit(event)}>
        <label for="token">Admin token</label>
        <input
          id="token"
          name="token"
          type="password"
          autocomplete="off"
          required
          aria-describedby="token-help token-problem"
          aria-invalid={problem !== null}
        />
        <p id="token-problem" class="problem" role="alert">
          {problem}
        </p>
        <button type="submit" class="primary" disabled={isChecking}>
          Sign in
        </button>
        <p id="token-help" class="hint">
          A token of the secret ADMIN_TOKENS. It stays in this tab until you close it. In local runs,{" "}
          <code>npm start</code> prints a link that signs you in.
        </p>
      </form>
      <p>
        The <a href="./playground">playground</a> needs no token.
      </p>
    </main>
  );
}
