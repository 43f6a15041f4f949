/** The operator of this tab. A token stays in this tab only; Cloudflare Access identifies operators without one. */
import { signal } from "@preact/signals";
import type { Operator, Right } from "../api/answers.ts";
import { ApiProblem, ConnectionLost, read, refusal, token } from "../api/client.ts";

export type Session =
  | { readonly kind: "checking" }
  /** `problem` says why the last attempt failed; null before the first. */
  | { readonly kind: "signed-out"; readonly problem: string | null }
  | { readonly kind: "signed-in"; readonly operator: Operator };

export const session = signal<Session>({ kind: "checking" });

const storageKey = "headgate-token";

/** Whether the operator may do this. The server decides; this only hides what it would refuse. */
export const may = (right: Right): boolean =>
  session.value.kind === "signed-in" && session.value.operator.may.includes(right);

/** A field of a request can have no other characters. */
const tokenForm = /^[\x21-\x7e]+$/;

/** Signs in with the token of the URL, of this tab, or with Access. */
export async function startSession(): Promise<void> {
  addEventListener("hashchange", changeToken);
  const given = tokenOfUrl() ?? sessionStorage.getItem(storageKey);
  const problem = given === null ? await tryToSignIn() : await signIn(given);
  if (problem === null) return;
  session.value = { kind: "signed-out", problem: given === null ? null : problem };
}

/** A link with a token was opened in this tab, which does not load the page again by itself. */
function changeToken(): void {
  const given = tokenOfUrl();
  if (given === null || !tokenForm.test(given)) return;
  sessionStorage.setItem(storageKey, given);
  location.reload();
}

/** Returns the problem; null after success. */
export async function signIn(text: string): Promise<string | null> {
  const given = text.trim();
  if (!tokenForm.test(given)) return "A token has visible ASCII characters only.";
  token.value = given;
  const problem = await tryToSignIn();
  if (problem === null) sessionStorage.setItem(storageKey, given);
  else token.value = null;
  return problem;
}

export function signOut(): void {
  sessionStorage.removeItem(storageKey);
  token.value = null;
  refusal.value = null;
  session.value = { kind: "signed-out", problem: null };
}

async function tryToSignIn(): Promise<string | null> {
  try {
    const operator = await read<Operator>("operator");
    refusal.value = null;
    session.value = { kind: "signed-in", operator };
    return null;
  } catch (error) {
    if (error instanceof ConnectionLost) return `${error.message} Try again when it runs.`;
    if (error instanceof ApiProblem) return error.message;
    throw error;
  }
}

/** The fragment is removed at once, so that no token stays in the address bar or the history. */
function tokenOfUrl(): string | null {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) history.replaceState(null, "", location.pathname + location.search);
  return given;
}
