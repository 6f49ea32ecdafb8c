// Bytes in messages.

interface FastBytes {
  fromBase64?: (text: string) => Uint8Array;
}

const fast = (Uint8Array as unknown as FastBytes).fromBase64;

/** The bytes of base64 text. */
export function decodeBase64(text: string): Uint8Array {
  if (fast) return fast.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Base64 text of bytes. */
export function encodeBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(binary);
}
