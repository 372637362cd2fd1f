// nothing does nothing: the program of payloads that are about init.
int main(void) { return 0; }
