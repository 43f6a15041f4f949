/** Links with a token that are opened in a tab of the console, which the browser does not load again. */
import { acceptToken, session, takeTokenOfUrl } from "./session.ts";
import { showToast } from "./toasts.tsx";

export const followTokenLinks = (): void => addEventListener("hashchange", () => void follow());

/** A token that is accepted replaces that of the tab. The page is loaded again, without what the former operator saw. */
async function follow(): Promise<void> {
  const given = takeTokenOfUrl();
  if (given === null) return;
  const accepted = await acceptToken(given);
  if (typeof accepted !== "string") location.reload();
  else if (session.value.kind !== "signed-in") {
    session.value = { kind: "signed-out", problem: accepted };
  } else {
    const { name } = session.value.operator;
    showToast({ text: `The link's token is not used. ${accepted} You are still ${name}.`, kind: "problem" });
  }
}
